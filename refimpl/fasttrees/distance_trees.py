"""From syntactic distances to a binary tree (section 5.1)."""

import numpy as np

from refimpl.checks import Float, check_finite, check_known
from refimpl.trees import Tree


def distance_trees(words: list[str], distances: list[float] | Float, split: str = "biased") -> Tree:
    r"""Return the binary tree, all labels "X", that splits where the distance is greatest.

    Spec: FT-8.  $i = \min \operatorname{argmax}_t \delta_t$: $[\text{left}_{0..i-1}\ [w_i\ \text{right}_{i+1..}]]$

    words : n str, n >= 1; distances : [n] float, how much of the tree ends before each word.
    split : "biased", or "unbiased": [left right], where right begins at the greatest distance after the first word.
    Raises ValueError if there is no word, lengths differ, a distance is not finite, `split` is unknown,
    or a word is not allowed in a `Tree`.

    >>> str(distance_trees(["a", "b", "c", "d"], [9, 1, 3, 2]))
    '(X a (X b (X c d)))'
    >>> str(distance_trees(["a", "b", "c", "d"], [9, 1, 3, 2], split="unbiased"))
    '(X (X a b) (X c d))'
    """
    d = np.asarray(distances)
    if len(words) == 0 or d.shape != (len(words),):
        raise ValueError(f"distances: shape {d.shape} for {len(words)} words, at least one")
    check_finite("distances", d)
    check_known("split", split, ("biased", "unbiased"))

    def node(first: int, end: int) -> Tree | str:
        if end - first == 1:
            return words[first]
        if split == "unbiased":
            i = first + 1 + int(np.argmax(d[first + 1 : end]))
            return Tree("X", (node(first, i), node(i, end)))
        i = first + int(np.argmax(d[first:end]))
        right = words[i] if i + 1 == end else Tree("X", (words[i], node(i + 1, end)))
        return right if i == first else Tree("X", (node(first, i), right))

    root = node(0, len(words))
    return root if isinstance(root, Tree) else Tree("X", (root,))

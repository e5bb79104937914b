"""Larger numbers for a softmax: it overflows if it misses the largest score of an earlier or of a later tile.

Each function returns a copy of a case in which a softmax along an axis of any size has its largest score at the end, by
RISE above all others. Another softmax of the case has it at the beginning. In attention and `cross_entropy` there is
none: random scores stand for it, many of which differ by more than RISE. Where nothing else is said, the other floats
are LOUDER times as large as in the case. Numbers stay exact in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from accel.verify.op import Case

LOUDER = 32.0
RISE = 900.0
"""Its exponential is infinite in float64, too."""
SHORT = 1.0


def loud(case: Case, times: float = LOUDER) -> Case:
    """Return a copy of the case with larger floats.

    >>> loud(Case({"rate": 0.5}, [{"x": np.ones(2)}])).examples[0]["x"]
    array([32., 32.])
    """

    def louder(x: Any) -> Any:
        return times * x if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x

    shared, *examples = ({key: louder(x) for key, x in e.items()} for e in (case.shared, *case.examples))
    return Case(shared, examples)


def narrow(x: Any) -> Any:
    return np.float64(np.float32(x))


def raise_score(scores: np.ndarray, place: int) -> None:
    """Raise one of the scores above the largest of them, in place."""
    scores[place] = narrow(scores.max() + RISE)


def with_peak_of_logits(case: Case) -> Case:
    case = loud(case)
    raise_score(case.examples[0]["z"][0], 0)
    raise_score(case.examples[-1]["z"][-1], -1)
    return case


def with_peak_of_group(case: Case) -> Case:
    """The last example's last group has it at the end, that of a copy of the example at the beginning."""
    case = loud(case)
    last, again = case.examples[-1], loud(case, 1.0).examples[-1]
    if size := last["sizes"][-1]:
        raise_score(last["scores"][-size:], -1)
        raise_score(again["scores"][-size:], 0)
    return Case(case.shared, [*case.examples, again])


def with_peak_of_words(case: Case) -> Case:
    """The last word's vector resembles the hidden state of the last row; its logits in other rows are random."""
    case = loud(case)
    table, h = case.shared["table"], case.examples[-1]["h"][-1]
    logits = table @ h + case.shared["bias"]
    table[-1] = narrow(table[-1] + (logits.max() - logits[-1] + RISE) * h / (h @ h))
    return case


def with_peak_of_keys(case: Case) -> Case:
    """The last key of the last query resembles this query; scores of other queries are random.

    In a head with a short query the key would be larger than float16 can hold: there its scores are random, too.
    """
    case = loud(case)
    example, shared = case.examples[-1], case.shared
    q, k = example["q"][-1], example["k"]
    keys = np.array(example["keys"][-1] if "keys" in example else range(len(k)), int)
    if not len(keys):
        return case
    query, root = q + shared.get("content_bias", 0.0), np.sqrt(q.shape[1])
    scores = np.einsum("hd,jhd->jh", query, k[keys]) / root
    if "r" in shared:
        distances = example["relative"][-1] if "relative" in example else keys[::-1]
        scores += np.einsum("hd,jhd->jh", q + shared["position_bias"], shared["r"][distances]) / root
    missing = scores.max(axis=0) - scores[-1] + RISE
    squares = (query**2).sum(axis=1)
    rise = np.where(squares >= SHORT**2, missing * root / np.maximum(squares, SHORT**2), 0.0)[:, np.newaxis] * query
    k[keys[-1]] = narrow(k[keys[-1]] + rise)
    return case


def with_peak_of_splits(case: Case) -> Case:
    """The last split of the last sentence, and the first one of a copy of the sentence.

    A label of all words but the last, or but the first, has more than all spans that cross these words.
    """
    case = loud(case)
    last, again = case.examples[-1]["scores"], loud(case, 1.0).examples[-1]
    n = len(last)
    for label, span, crossing in (
        (-1, last[0, max(n - 2, 0)], last[1:-1, -1]),
        (0, again["scores"][min(1, n - 1), -1], again["scores"][0, 1:-1]),
    ):
        span[label] = narrow(max(span.max(), 0.0) + np.maximum(crossing.max(axis=1), 0.0).sum() + RISE)
    return Case(case.shared, [*case.examples, again])


def with_peak_of_gates(case: Case) -> Case:
    """Of both master gates; two gates of units are 0 and 1."""
    case = loud(case)
    for example, row in ((case.examples[0], 0), (case.examples[-1], -1)):
        for name in "ab":
            raise_score(example[name][row], row)
        example["f"][row, -1] = RISE if row else -RISE
    return case


def with_peak_of_masters(case: Case) -> Case:
    """In the first and the last step of the first sequence, whose other floats stay; two gates of units are 0 and 1."""
    case = loud(case, 1.0)
    example = case.examples[0]
    gates, n = example["gates"], (example["gates"].shape[1] - 4 * len(example["c0"])) // 2
    for step in (0, -1):
        for masters in np.split(gates[step, : 2 * n], 2) if n else ():
            raise_score(masters, step)
        gates[step, -1] = RISE if step else -RISE
    return case


def with_peak_of_phrases(case: Case) -> Case:
    """The last sentence ends with a long vector, a copy of it begins with one; each step to a longer phrase halves it.

    So the root's largest score is that of the last split, or of the first one. The other floats stay.
    """
    case = loud(case, 1.0)
    last, again = case.examples[-1]["tokens"], loud(case, 1.0).examples[-1]
    direction = case.shared["direction"]
    case.shared["compose"][:] = np.concatenate([np.eye(len(direction))] * 2) / 2
    long = narrow(5 * RISE * direction / (direction @ direction))  # its score is 5/2 of RISE; at other splits 5/4
    last[-1], again["tokens"][0] = long, long
    return Case(case.shared, [*case.examples, again])

"""Generated English: one tree a sentence, exact probabilities and entropy, constructions that training never has."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp, inf, isclose, log, prod, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.data.files.brackets import read_trees
from accel.data.generated.grammar import CONSTRUCTIONS, ENGLISH, minimal_pairs, proposals, tree_over
from accel.data.generated.pcfg import Grammar, parse_grammar
from refimpl.trees import Tree, spans, words

# A finite grammar with ambiguous strings, unary chains, and two derivations of the tree (S (A a)).
TOY = parse_grammar(
    """
    S 3 A|1 B
    S 2 B A|1
    S 2 A|1
    S 1 A|2
    S 1 c c
    A|1 1 c
    A|1 2 B
    A|2 1 c c c
    A|2 1 c
    B 1 c
    B 3 c c
    """,
    "c a b",
    "S",
)


def derivations(grammar: Grammar, symbol: str) -> Iterator[tuple[float, Tree | str]]:
    if symbol in grammar.lexicon:
        yield from grammar.lexicon[symbol]
        return
    for p, rhs in grammar.phrases[symbol]:
        forests: list[tuple[float, tuple[Tree | str, ...]]] = [(p, ())]
        for child in rhs:
            below = list(derivations(grammar, child))
            forests = [(q * r, (*forest, node)) for q, forest in forests for r, node in below]
        yield from ((q, Tree(symbol.split("|")[0], forest)) for q, forest in forests)


def test_the_toy_grammar_against_its_list_of_derivations() -> None:
    every = list(derivations(TOY, "S"))
    trees: dict[Tree, float] = {}
    strings: dict[tuple[str, ...], float] = {}
    for p, tree in every:
        assert isinstance(tree, Tree)
        trees[tree] = trees.get(tree, 0.0) + p
        strings[tuple(words(tree))] = strings.get(tuple(words(tree)), 0.0) + p
    assert len(every) > len(trees) > len(strings) and isclose(sum(trees.values()), 1)
    assert all(isclose(TOY.tree_logp(tree), log(p), abs_tol=1e-12) for tree, p in trees.items())
    assert all(isclose(TOY.sentence_logp(string), log(p), abs_tol=1e-12) for string, p in strings.items())
    assert isclose(TOY.entropy, -sum(p * log(p) for p, _ in every))
    assert isclose(TOY.expected_words, sum(p * len(words(tree)) for tree, p in trees.items()))


def test_a_sentence_of_english_has_one_tree() -> None:
    """The inside algorithm sums over all trees of a string; the sum is the probability of the one tree."""
    for tree in ENGLISH.sample(1500, seed=1):
        assert isclose(ENGLISH.sentence_logp(words(tree)), ENGLISH.tree_logp(tree), rel_tol=1e-12)


def test_a_probability_by_hand() -> None:
    (tree,) = read_trees(["(S (NP they) (VP sleep) .)"])
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    expected = prod([
        0.86 / 2,  # S: not coordinated, plural
        0.92 * 0.15,  # NP: not coordinated, "they"
        0.92 * 0.18, 1 / harmonic,  # VP: not coordinated, intransitive; the first of four verbs
    ])  # fmt: skip
    assert isclose(ENGLISH.tree_logp(tree), log(expected))


def test_the_entropy_is_the_mean_over_samples() -> None:
    trees = list(ENGLISH.sample(4000, seed=2))
    surprisals = np.array([-ENGLISH.tree_logp(tree) for tree in trees])
    lengths = np.array([len(words(tree)) for tree in trees])
    assert abs(surprisals.mean() - ENGLISH.entropy) < 4 * surprisals.std() / sqrt(len(trees))
    assert abs(lengths.mean() - ENGLISH.expected_words) < 4 * lengths.std() / sqrt(len(trees))
    assert isclose(ENGLISH.perplexity, exp(ENGLISH.entropy / ENGLISH.expected_words))
    assert 8 < ENGLISH.expected_words < 12 and 8 < ENGLISH.perplexity < 11


def test_samples_follow_the_seed() -> None:
    first, again, other = (list(ENGLISH.sample(20, seed)) for seed in (3, 3, 4))
    assert first == again != other


@pytest.mark.parametrize(
    "garden_path",
    [
        "(S (NP the horse) (VP raced (PP past (NP the barn))) .)",
        "(S (NP (NP the horse) (VP raced (PP past (NP the barn)))) (VP fell) .)",
        "(S (NP the girl) (VP knows (NP the dog)) .)",
        "(S (NP the girl) (VP knows (SBAR (S (NP the dog) (VP sleeps)))) .)",
        "(S (NP the girl) (VP knows (SBAR that (S (NP the dog) (VP sleeps)))) .)",
        "(S (NP the girl) (VP sees (NP (NP the dog) and (NP the boy))) .)",
        "(S (S (NP the girl) (VP sees (NP the dog))) and (S (NP the boy) (VP sleeps)) .)",
        "(S (NP (NP the girl) (SBAR (S (NP the dogs) (VP chase)))) (VP sleeps) .)",
    ],
)
def test_garden_paths_and_their_misreadings(garden_path: str) -> None:
    (tree,) = read_trees([garden_path])
    logp = ENGLISH.tree_logp(tree)
    assert logp > -inf and isclose(ENGLISH.sentence_logp(words(tree)), logp)


@pytest.mark.parametrize(
    "sentence", ["", "the dog sleep .", "the dogs sleeps .", "the dog near the cats sleep .", "zebra", "a dogs sleep ."]
)
def test_other_strings_have_no_probability(sentence: str) -> None:
    assert ENGLISH.sentence_logp(sentence.split()) == -inf


@pytest.mark.parametrize("construction", CONSTRUCTIONS)
def test_agreement_pairs(construction: str) -> None:
    """The training grammar does not generate held-out constructions or wrong verbs; it generates all others."""
    singular = {word for _, word in ENGLISH.lexicon["noun.sg"]}
    plural = {word for _, word in ENGLISH.lexicon["noun.pl"]}
    subjects = set()
    for pair in minimal_pairs(construction, 60, seed=5):
        sentence = words(pair.tree)
        assert pair.construction == construction and sentence[pair.position] == pair.right
        assert words(pair.wrong_tree) == [*sentence[: pair.position], pair.wrong, *sentence[pair.position + 1 :]]
        assert pair.wrong_tree != pair.tree
        held_out = CONSTRUCTIONS[construction]
        assert (ENGLISH.tree_logp(pair.tree) == -inf) == (ENGLISH.sentence_logp(sentence) == -inf) == held_out
        assert ENGLISH.tree_logp(pair.wrong_tree) == ENGLISH.sentence_logp(words(pair.wrong_tree)) == -inf
        nouns = [word in singular for word in sentence[: pair.position] if word in singular | plural]
        assert pair.right.endswith("s") == nouns[0]
        assert all(attractor != nouns[0] for attractor in nouns[1:])
        assert len(nouns) == 1 + (construction != "simple") + held_out
        subjects.add(nouns[0])
    assert subjects == {True, False}


def test_unknown_constructions_are_named() -> None:
    with pytest.raises(ValueError, match="unknown construction 'passive': choose one of simple, "):
        minimal_pairs("passive", 1, seed=0)


TREES = st.recursive(
    st.sampled_from("ab"),
    lambda children: st.builds(
        Tree, st.sampled_from(["S", "X"]), st.lists(children, min_size=1, max_size=3).map(tuple)
    ),
    max_leaves=12,
).map(lambda node: node if isinstance(node, Tree) else Tree("S", (node,)))


@given(TREES, st.integers(1, 30), st.integers(0, 2**32))
def test_proposals_are_different_trees_over_the_same_words(tree: Tree, count: int, seed: int) -> None:
    proposed = proposals(tree, count, seed)
    assert tree in proposed and len(set(proposed)) == len(proposed) == count
    assert all(words(other) == words(tree) for other in proposed)
    assert proposed == proposals(tree, count, seed)


def test_the_right_tree_may_be_anywhere_among_the_proposals() -> None:
    tree = next(ENGLISH.sample(1, seed=0))
    assert len({proposals(tree, 5, seed).index(tree) for seed in range(40)}) == 5
    with pytest.raises(ValueError, match="count must be at least 1, not 0"):
        proposals(tree, 0, seed=0)


@given(TREES)
def test_spans_and_words_make_the_tree_again(tree: Tree) -> None:
    assert tree_over(spans(tree), words(tree)) == tree


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("S 1 S S\nS 1 c", "not subcritical"),
        ("S 1 X\nX 1 c\nX 1 S", "each other's only child: "),
        ("S 1 X", "a rule of 'S' uses unknown symbols: X"),
        ("X 1 c", "the start symbol 'S' has no rules"),
    ],
)
def test_bad_grammars_are_refused(rules: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        grammar = parse_grammar(rules, "c a", "S")
        grammar.sentence_logp(["a"])
        assert grammar.entropy > 0

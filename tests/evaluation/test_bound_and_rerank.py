"""Perplexity and reranking over proposals and documents: against the reference and sums over whole documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import accumulate
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from accel.data.corpora.gathered import gather
from accel.data.corpora.proposals import ProposalFile, stream_proposals
from accel.data.corpora.treebank import DOCUMENT, Corpus, Reading, Sentence, encode_trees
from accel.data.files.brackets import read_trees
from accel.data.vocabularies.building import build
from accel.evaluation import bound_and_rerank, documents
from accel.evaluation.bound_and_rerank import (
    _chunks,
    bracket_score,
    choose,
    has_tags,
    known_to,
    proposal_logps,
    scored,
    word_perplexity,
)
from accel.evaluation.evalb_input import COLLINS
from accel.scoring import trees as score
from accel.trained.opening import Model
from refimpl.transformer_grammars import marginal
from refimpl.trees import Tree, words
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.device_parameters import on_device
from tests.fixtures.enumerated_trees import proposals_of
from tests.fixtures.transformer_grammar_models import VARIANTS, parameters_of

GROUPS = [proposals_of(n, range(1))[:most] for n, most in ((3, 4), (1, 2), (4, 3), (2, 1), (5, 3), (2, 2))]
DOCUMENTS = [3, 1, 2]
VOCABULARY = build((tree for group in GROUPS for tree in group), extra=[DOCUMENT])
PROPOSALS = [[Sentence(tree, 1, 0) for tree in group] for group in GROUPS]


def model_of(ops: ModuleType, name: str) -> Model:
    config = replace(VARIANTS[name], vocabulary_size=len(VOCABULARY))
    return Model(__file__, config, on_device(ops, parameters_of(config)), VOCABULARY, None)


def in_documents(sentences: Sequence[object]) -> list[list[object]]:
    return [list(sentences[end - n : end]) for n, end in zip(DOCUMENTS, accumulate(DOCUMENTS), strict=True)]


@pytest.mark.parametrize("name", ["tg", "txl_cc"])
@pytest.mark.parametrize("single", [(), (0,), (0, 1, 5), (1, 2, 4)])
def test_documents_match_the_reference(backend: ModuleType, name: str, single: tuple[int, ...]) -> None:
    """The expected values are log-probabilities of documents, (DOC ...), that are cut after a sentence.

    The sentences in `single` have one proposal.
    """
    model = model_of(backend, name)
    all_trees = [trees[:1] if number in single else trees for number, trees in enumerate(GROUPS)]
    all_proposals = [group[: len(trees)] for group, trees in zip(PROPOSALS, all_trees, strict=True)]

    @cache
    def begun(trees: tuple[Tree, ...], closed: bool) -> float:
        [events] = score.event_logps(backend, [model], encode_trees([Tree(DOCUMENT, trees)], VOCABULARY))
        return float(events[: len(events) if closed else -1].sum())

    expected = []
    for document in in_documents(all_trees):

        def conditional(before: Sequence[Tree], tree: Tree, size: int = len(document)) -> float:
            whole = begun((*before, tree), closed=len(before) + 1 == size)
            return whole - (begun(tuple(before), closed=False) if before else 0.0)

        expected += marginal.document_logps(conditional, document)
    ranked = proposal_logps(backend, [model], "given", all_proposals, documents=DOCUMENTS, batch_size=2)
    assert [len(logps) for logps in ranked] == [len(group) for group in all_trees]
    np.testing.assert_allclose([marginal.sentence_logp(logps) for logps in ranked], expected, rtol=1e-9)
    choices = choose(backend, [model], "given", all_proposals, documents=DOCUMENTS)
    best = [(group[int(np.argmax(logps))], max(logps)) for group, logps in zip(all_trees, ranked, strict=True)]
    assert [pair and pair[0] for pair in choices] == [tree for tree, _ in best]
    result = word_perplexity(backend, [model], "given", all_proposals, documents=DOCUMENTS)
    n_words = sum(len(words(group[0])) for group in all_trees)
    assert result.perplexity == pytest.approx(marginal.perplexity(expected, n_words), rel=1e-9)
    assert not result.is_bound


@pytest.mark.parametrize("name", ["tg", "txl_cc", "txl_terminals"])
def test_single_proposals_are_the_document(backend: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every document is read once."""
    model, n_sequences = model_of(backend, name), list[int]()

    def events_of(ops: ModuleType, models: Sequence[Model], corpus: Corpus, **options: Any) -> Iterator[np.ndarray]:
        n_sequences.append(len(corpus))
        return score.event_logps(ops, models, corpus, **options)

    monkeypatch.setattr(documents, "event_logps", events_of)
    single = [group[:1] for group in PROPOSALS]
    whole = [Tree(DOCUMENT, tuple(group[0].tree for group in document)) for document in in_documents(single)]
    expected = list(score.tree_logps(backend, [model], encode_trees(whole, VOCABULARY)))
    ranked = proposal_logps(backend, [model], "given", single, documents=DOCUMENTS)
    assert n_sequences == [len(DOCUMENTS)]
    totals = [sum(logps[0] for logps in document) for document in in_documents(ranked)]
    np.testing.assert_allclose(totals, expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["tg", "txl_terminals"])
def test_a_document_ends_before_a_sentence_without_proposals(backend: ModuleType, name: str) -> None:
    model = model_of(backend, name)
    whole = proposal_logps(backend, [model], "given", PROPOSALS, documents=DOCUMENTS)
    gaps = [group if sentence not in (1, 3) else [] for sentence, group in enumerate(PROPOSALS)]
    logps = proposal_logps(backend, [model], "given", gaps, documents=DOCUMENTS)
    assert logps[1] == logps[2] == logps[3] == []
    for sentence in (0, 4, 5):
        np.testing.assert_allclose(logps[sentence], whole[sentence], rtol=1e-9)
    of_whole, of_gaps = (
        word_perplexity(backend, [model], "given", part, documents=DOCUMENTS) for part in (PROPOSALS, gaps)
    )
    assert of_gaps.n_words == sum(len(words(GROUPS[sentence][0])) for sentence in (0, 4, 5))  # none after a gap
    n_ends = [of_whole.n_ends, of_gaps.n_ends]
    assert n_ends == ([0, 0] if name == "tg" else [3, 1])  # TXL (terminals) counts the ends of whole documents
    with pytest.raises(ValueError, match="^documents of 5 sentences, but there are 6$"):
        proposal_logps(backend, [model], "given", PROPOSALS, documents=[3, 2])


@pytest.mark.parametrize("name", ["tg", "txl_terminals"])
@pytest.mark.parametrize("most", [1, 6, 100])
def test_files_are_scored_as_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, most: int) -> None:
    """A file scores as a list, with any number of trees in memory, also where sentences lack proposals or are long."""
    monkeypatch.setattr(bound_and_rerank, "TREES", most)
    model, path = model_of(CPU, name), tmp_path / "numbered"
    path.write_text("".join(f"{n}\t{tree}\n" for n, group in enumerate(GROUPS, 2) for tree in group))
    stream = partial(stream_proposals, path, Reading(), numbered=True)
    sentences = gather(path, stream, Reading(), numbered=True, n_sentences=8, max_words=4, check=known_to(model, path))
    groups = [[], *(group if len(words(group[0].tree)) <= 4 else [] for group in PROPOSALS), []]
    assert sentences.n_proposals == [len(group) for group in groups]
    from_file = word_perplexity(CPU, [model], path, sentences.proposals)
    from_list = word_perplexity(CPU, [model], path, groups)
    assert from_file.perplexity == pytest.approx(from_list.perplexity, rel=1e-12)
    assert from_file.n_words == from_list.n_words and from_file.mean_proposals == from_list.mean_proposals
    assert [logp is None for logp in from_file.sentence_logps] == [not group for group in groups]
    if name == "tg":
        choices = choose(CPU, [model], path, sentences.proposals)
        assert [best and best[0] for best in choices] == [best and best[0] for best in choose(CPU, [model], "", groups)]


@pytest.mark.parametrize("name", ["tg", "txl_terminals"])
@pytest.mark.parametrize("documents", [None, DOCUMENTS])
def test_processes_and_parts_change_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, documents: list[int] | None
) -> None:
    """A part has a few sentences or documents; the file is read only as far as the next part."""
    model, n_read, numbers = model_of(CPU, name), list[int](), list[int]()

    def stream() -> Iterator[list[Sentence]]:
        for number, group in enumerate(PROPOSALS):
            numbers.append(number)
            yield group

    def read(processes: int) -> Iterator[list[float]]:
        numbers.clear()
        groups = ProposalFile(Path("x"), stream, [len(group) for group in GROUPS])
        for _, logps in scored(CPU, [model], "", groups, documents=documents, processes=processes):
            n_read.append(len(numbers))
            yield logps

    whole = list(read(1))
    assert n_read == [6] * 6
    n_read.clear()
    monkeypatch.setattr(bound_and_rerank, "TREES", 1)
    alone = list(read(1))
    for logps, of_whole in zip(alone, whole, strict=True):
        np.testing.assert_allclose(logps, of_whole, rtol=1e-9)
    assert n_read == ([1, 2, 3, 4, 5, 6] if documents is None else [3, 3, 3, 4, 6, 6])
    assert list(read(2)) == alone


class Group(list[Sentence]):
    """Proposals that count how often their number is read."""

    n_reads = 0

    def __len__(self) -> int:
        Group.n_reads += 1
        return super().__len__()


def test_parts_are_made_in_linear_time_and_have_few_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences without proposals count, too: a file with a few long sentences only would become one part."""
    groups = [Group(group) for group in 60 * PROPOSALS]
    assert [len(chunk) for _, chunk in _chunks(groups, [1] * len(groups))] == [205, 155]
    assert Group.n_reads < 3 * len(groups)
    monkeypatch.setattr(bound_and_rerank, "TREES", 2)
    assert list(_chunks([[]] * 5, [1] * 5)) == [([1, 1], [[], []]), ([1, 1], [[], []]), ([1], [[]])]


@pytest.mark.parametrize(
    ("chosen", "counts"),
    [
        (["(S (NP birds) (VP sing))", "(S (NP they) (VP fly))"], [(3, 3, 3), (3, 3, 3)]),  # phrases of one word
        (["(S (NP (NNS birds)) (VP (VBP sing)))", "(S (NP they) (VP (VBP fly)))"], [(3, 3, 3), (3, 3, 3)]),
        (["(S (NP (FW birds)) (VP (VBP sing)))", "(S (PRP they) (VP (VBP fly)))"], [(3, 3, 3), (2, 3, 2)]),
        (["(S (NP (NNS birds) (VBP sing)))", ""], [(1, 3, 2), (0, 0, 0)]),
    ],
)  # fmt: skip
def test_words_without_a_tag_take_the_gold_one(chosen: list[str], counts: list[tuple[int, int, int]]) -> None:
    gold = ["(S (NP (NNS birds)) (VP (VBP sing)))", "(S (NP (PRP they)) (VP (VBP fly)))"]
    gold_trees, trees = ([next(read_trees([text])) if text else None for text in side] for side in (gold, chosen))
    score = bracket_score(trees, [tree for tree in gold_trees if tree is not None], COLLINS)
    assert [(row.matched, row.gold, row.predicted) for row in score.per_sentence] == counts


def test_tags_of_gold_trees_are_no_constituents_where_one_tree_has_none() -> None:
    """The labels of phrases over single words are no tags either."""
    gold = ["(S (NP (NNS birds)) (VP (VBP sing)))", "(S (NP (PRP they) (CC and) (PRP we)) (VP (VBP fly)))",
            "(S (NP (NNP New) (NNP York)) (VP (VBZ sleeps)))", "(S (NP New York) (VP sleeps))"]  # fmt: skip
    trees = [next(read_trees([text])) for text in gold]
    score = bracket_score(trees, trees, COLLINS)
    assert [(row.matched, row.gold, row.predicted) for row in score.per_sentence] == [(3, 3, 3)] * 4 and score.f1 == 100
    bare = [next(read_trees([text])) for text in ("(S (NP birds) (VP sing))", *gold[1:])]
    assert bracket_score(bare, trees, COLLINS).f1 == 100 and has_tags(trees) and not has_tags(bare[3:])


@pytest.mark.parametrize(
    ("text", "are_tags", "count"),
    [
        ("(S (NP they) (VP stumbled) .)", False, 3),
        ("(S (NP he) (ADVP never) (VP sleeps) .)", False, 4),
        ("(S (NP (PRP they)) (VP (VBD stumbled)) .)", True, 3),  # phrases over tags
        ("(S (NP (DT a) (NN dog)) (VP (VBZ sees) (NP (DT a) (NN cat))) .)", True, 4),  # five of six words
        ("(S (NP a dog) (VP sees (NP him)) .)", False, 4),
    ],
)
def test_a_small_file_without_tags_has_none(text: str, are_tags: bool, count: int) -> None:
    """A phrase of one word looks like a tag there; the full stop has no tag."""
    trees = list(read_trees([text]))
    [row] = bracket_score(trees, trees, COLLINS).per_sentence
    assert (has_tags(trees), row.matched, row.gold, row.predicted) == (are_tags, count, count, count)


@pytest.mark.parametrize("more", [0, 1])
def test_phrases_of_chosen_trees_are_no_tags_where_every_word_has_one(more: int) -> None:
    """The gold trees have no tags, but phrases with these labels; other sentences change nothing."""
    gold, best_tree = read_trees(["(S (NP the dog) (VP sings))", "(S (NP the) (NP dog) (VP sings))"])
    row, *_ = bracket_score([best_tree] + [gold] * more, [gold] * (1 + more), COLLINS).per_sentence
    assert (row.matched, row.gold, row.predicted) == (2, 3, 4)


def test_one_phrase_with_the_label_of_a_tag_changes_no_other_tree() -> None:
    plain, odd = (
        "(S (NP (DT the) (NN dog)) (VP (VBZ barks)))",
        "(S (NP (DT the) (NN (NN dog) (NN food))) (VP (VBZ is)))",
    )
    trees = [next(read_trees([text])) for text in (*[plain] * 5, odd)]
    score = bracket_score(trees, trees, COLLINS)
    assert [(row.matched, row.gold, row.predicted) for row in score.per_sentence] == [(3, 3, 3)] * 5 + [(4, 4, 4)]


def test_tags_of_chosen_trees_do_not_count_where_gold_trees_have_none() -> None:
    """EVALB deletes punctuation by its tag. If only one side had tags, the sentence would be an error."""
    gold, best_tree = (next(read_trees([text])) for text in ("(S (NP the birds) (VP sing) .)",
                    "(S (NP (DT the) (NNS birds)) (VP (VBP sing)) (. .))"))  # fmt: skip
    score = bracket_score([best_tree, None], [gold, gold], COLLINS)
    assert (score.valid, score.errors, score.skipped, score.f1) == (1, 0, 1, 100)

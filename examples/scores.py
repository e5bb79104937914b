"""What `examples.measure` asks of a trained model: perplexity, F1 by reranking, syntactic generalisation."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.commands.opened import progress
from accel.data.corpora.constituents import constituents
from accel.data.corpora.draws import beside, stream_draws
from accel.data.corpora.proposals import Proposals, read_proposals
from accel.data.corpora.treebank import Sentence
from accel.data.files.brackets import without_preterminals
from accel.evaluation.bound_and_rerank import bracket_score, proposal_logps
from accel.evaluation.evalb_input import COLLINS
from accel.evaluation.importance import perplexity_estimate, sentence_estimate
from accel.evaluation.significance import interval_of_means
from accel.evaluation.syntaxgym import LEFT_OUT, circuit_of
from accel.parsing.propose import closest
from accel.trained.ensembles import of_words
from accel.trained.opening import Model
from examples.candidates import READING, Candidates
from examples.commands import grove
from examples.result_files import Result
from examples.sample import Sample
from refimpl.transformer_grammars.marginal import perplexity, sentence_logp
from refimpl.trees import Tree, words

ITEMS = "items.json"


def judged(ops: ModuleType, model: Model, candidates: Candidates, sample: Sample) -> Result:
    """Return the perplexity on a sample with its proposals and, for a model of trees, F1.

    `rows` has one row for every sentence: the number of words, log p and, for a model of trees, the numbers of matching
    brackets, of brackets of the gold tree and of brackets of the chosen tree. In documents, log p is conditioned on the
    greedy trees of the sentences before, and `alone` is the perplexity of the same sentences, each read as the first of
    a document. Otherwise a model of trees also has the perplexity of the gold trees alone and, if trees are drawn, the
    perplexity that proposals and drawn trees estimate (IS-2, IS-3).
    """
    proposals = read_proposals(candidates.proposals, READING)
    exact = of_words(model)
    groups = [group[:1] for group in proposals] if exact else proposals
    scored = partial(_logps, ops, model, candidates.proposals)
    ranked = scored(groups, sample)
    logps = [sentence_logp(group_logps) for group_logps in ranked]
    counts = [len(words(tree)) for tree in sample.gold]
    bound: Result = {
        "value": perplexity(logps, sum(counts)),
        "is_bound": not exact and sample.documents is None,
        "sentences": len(sample.gold),
        "words": sum(counts),
        "skipped": sample.skipped,
        "proposals": sum(map(len, groups)) / len(groups),
    }
    if exact:
        bound["ends"] = sample.n_ends
    if sample.documents is not None:
        singles = replace(sample, documents=[(1, 2)] * len(groups))
        alone = [sentence_logp(group_logps) for group_logps in scored(groups, singles)]
        bound |= {"documents": sample.documents, "alone": perplexity(alone, sum(counts))}
    rows: list[list[float]] = [[n, round(logp, 4)] for n, logp in zip(counts, logps, strict=True)]
    result: Result = {"perplexity": bound, "rows": rows}
    if bound["is_bound"]:
        gold = [[Sentence(without_preterminals(tree), 0, n)] for n, tree in enumerate(sample.gold)]
        bound["gold_tree"] = perplexity([logp for [logp] in scored(gold, sample)], sum(counts))
        if candidates.draws is not None:
            rated = list(zip(proposals, ranked, strict=True))
            bound["estimate"] = _estimate(ops, model, candidates.draws, sample, rated, sum(counts))
    if not exact:
        best_trees = [
            group[group_logps.index(max(group_logps))].tree
            for group, group_logps in zip(proposals, ranked, strict=True)
        ]
        score = bracket_score(best_trees, sample.gold, COLLINS)
        for row, line in zip(rows, score.per_sentence, strict=True):
            row += [line.matched, line.gold, line.predicted]
        result["rerank"] = {"f1": score.f1} | _limits(proposals, sample.gold)
    return result


def _logps(ops: ModuleType, model: Model, path: Path, groups: Proposals, sample: Sample) -> list[list[float]]:
    """Return log p of every proposal of every sentence of the sample."""
    proposals, sizes = sample.in_documents(groups)
    bar = partial(progress, unit="sentence")
    return [logps for logps in proposal_logps(ops, [model], path, proposals, documents=sizes, progress=bar) if logps]


def _estimate(
    ops: ModuleType,
    model: Model,
    path: Path,
    sample: Sample,
    rated: Sequence[tuple[list[Sentence], list[float]]],
    n_words: int,
) -> Result:
    """Return the perplexity that the proposals and the trees drawn beside them estimate, with its standard error.

    `rated` holds the proposals of every sentence and their log p. In the result, `draws` is the mean number of drawn
    trees per sentence, and `others` the mean number of drawn trees that are not among the proposals.
    """
    all_draws = list(stream_draws(path, READING, with_replacement=False))
    united = list(beside(path, all_draws, [group for group, _ in rated]))
    others = [trees[len(group) :] for (trees, _), (group, _) in zip(united, rated, strict=True)]
    other_logps = iter(_logps(ops, model, path, [group for group in others if group], sample))
    estimates = []
    for (_, known_logps), (_, draws), group in zip(rated, united, others, strict=True):
        logps = [*known_logps, *(next(other_logps) if group else [])]
        estimates.append(sentence_estimate(logps, [draw.logp for draw in draws], with_replacement=False))
    value, error = perplexity_estimate(estimates, n_words)
    counts = {"draws": [group for group, _ in all_draws], "others": others}
    return {"value": value, "error": error} | {name: sum(map(len, x)) / len(x) for name, x in counts.items()}


def _limits(proposals: Proposals, gold: list[Tree]) -> Result:
    """Return F1 of the parser's best trees and of the proposals nearest to gold, and the share of sentences whose
    gold tree is among the proposals."""
    bare = [constituents(without_preterminals(tree)) for tree in gold]
    parsed = [[(constituents(sentence.tree), 0.0) for sentence in group] for group in proposals]
    nearest = [group[closest(parses, tree)].tree for group, parses, tree in zip(proposals, parsed, bare, strict=True)]
    best = [group[0].tree for group in proposals]
    choices = {"parser_f1": best, "oracle_f1": nearest}
    scores = {name: bracket_score(trees, gold, COLLINS).f1 for name, trees in choices.items()}
    n_with_gold = sum(
        constituents(tree) == gold_constituents for tree, gold_constituents in zip(nearest, bare, strict=True)
    )
    return scores | {"gold_among": n_with_gold / len(gold)}


def search_scores(path: Path, sample: Sample) -> Result:
    """Return F1 of the best trees of a search, and the share of sentences for which it found one."""
    groups = read_proposals(path, READING, numbered=True)
    groups += [[] for _ in range(len(sample.gold) - len(groups))]
    pairs = [(group[0].tree, gold) for group, gold in zip(groups, sample.gold, strict=True) if group]
    score = {"f1": bracket_score(*map(list, zip(*pairs, strict=True)), COLLINS).f1} if pairs else {}
    return score | {"coverage": len(pairs) / len(groups)}


def syntaxgym(model: Model, directory: Path, suites: Sequence[Path], parser: Path, backend: str) -> Result:
    """Return the mean accuracy of a run over the paper's suites with its interval, and the circuits."""
    proposing = () if of_words(model) else ("--parser", parser)
    device = ("--backend", backend)
    grove("syntaxgym", "--checkpoint", directory, *suites, *proposing, *device, "--out", directory / ITEMS)
    content = json.loads((directory / ITEMS).read_text(encoding="utf-8"))
    right, counts = right_items(content)
    mean, low, high = interval_of_means([items for items in right.values() if items])
    return {
        "mean": mean,
        "interval": [low, high],
        "circuits": content["means"]["as in the paper"]["circuits"],
        "circuit_intervals": circuit_intervals(right),
        "answers": answers_of(content),
    } | counts


def answers_of(content: Mapping[str, Any]) -> dict[str, str]:
    """Return a letter for every item of the paper's suites: 1 if it is right, 0 if it is wrong, - if it was skipped."""
    items_of = {name: suite["items"] for name, suite in content["suites"].items() if name not in LEFT_OUT}
    return {name: "".join("-" if "skipped" in x else "01"[x["correct"]] for x in of) for name, of in items_of.items()}


def item_differences(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, list[float]]:
    """Return for every suite the differences of two models' answers, in %, to the items that neither skipped.

    >>> item_differences({"npi": "110-"}, {"npi": "0101"})
    {'npi': [100.0, 0.0, 0.0]}
    """
    both = {suite: zip(letters, other[suite], strict=True) for suite, letters in one.items()}
    return {suite: [100.0 * (int(a) - int(b)) for a, b in of if "-" not in (a, b)] for suite, of in both.items()}


def right_items(content: Mapping[str, Any]) -> tuple[dict[str, list[float]], dict[str, int]]:
    """Return 1 or 0 for every judged item of the paper's suites, and how many items were judged and skipped.

    `content` is what `grove syntaxgym` wrote.
    """
    answers = answers_of(content)
    right = {name: [float(letter) for letter in letters if letter != "-"] for name, letters in answers.items()}
    n_items, n_judged = (sum(map(len, x.values())) for x in (answers, right))
    return right, {"items": n_judged, "skipped": n_items - n_judged}


def circuit_intervals(judged: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Return the bootstrapped 95 % interval over items of every circuit's mean; `judged` has 0 or 1 for each item."""
    of_circuit: dict[str, list[Sequence[float]]] = {}
    for suite, items in judged.items():
        circuit = circuit_of(suite)
        if circuit is not None and len(items) > 1:
            of_circuit.setdefault(circuit, []).append(items)
    return {circuit: list(interval_of_means(groups)[1:]) for circuit, groups in of_circuit.items()}

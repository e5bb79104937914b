"""The orders that the papers claim, tested by our results: the tables of verdicts in NOT_REPRODUCED.md and RESULTS.md.

A claim is that one model is better than another in a measure. It is confirmed if the 95 % interval of the difference
(Welch's, over seeds) lies on the paper's side of 0, refuted if on the other side, and open otherwise. If two searches
have the same models, or one side needs no training, the interval is Student's, of the differences; "so far" if the last
validation of most trainings was their best one. Of several trainings that both models have, the first in the list of
the claim counts: the longest, or one with more seeds. If one model has one seed, and the answers to all test examples
are stored, it is compared with every seed of the other over paired examples. The interval covers the intervals of all
these comparisons; it says nothing about other seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from math import sqrt
from statistics import fmean
from typing import Any

import numpy as np

from accel.evaluation.significance import Interval, interval_of_means
from examples.claims import CLAIMS, VARIANT_PAIRS, Claim
from examples.fasttrees.answers import right_of
from examples.gpst_tables import GENERATED, ablated, circuits_ahead, tree_verdicts
from examples.markdown import compared, normal, of_seeds, table, verdict, with_interval
from examples.queue_tables import Run
from examples.result_files import ESTIMATED, NAMES, PAPER, Result, grouped, is_still_improving, of_documents, split_of
from examples.result_files import value_of as value_of_grammar
from examples.scores import item_differences
from examples.task_results import TaskResult, value_of
from examples.task_tables import SOURCES, TASKS
from examples.treeformer.sizes import variant_of

SuiteAnswers = Mapping[str, str]
"""1 or 0 for each item of SyntaxGym's suites, - for one that was skipped."""
HEAD = ("in the paper", "its order", "training", "difference (95 % interval)", "seeds", "steps",
        "still improving", "verdict")  # fmt: skip
TITLES = {
    "transformer_grammars": "Transformer Grammars", "fasttrees": "FastTrees", "treeformer": "Treeformer",
    "gpst": "GPST",
}  # fmt: skip
DECIDED = "confirmed", "refuted"
ONE_SEED, EQUAL = "open: one seed, no interval", "open: equal values, no interval"
EXACT = "txl_terminals"


def verdicts(
    paper: str, results: Sequence[Result], of_tasks: Sequence[TaskResult], of_queue: Sequence[Run] = ()
) -> str:
    """Return a row for every claim of a paper."""
    return table(HEAD, _rows(paper, results, of_tasks, of_queue), n_names=3)


def decided(results: Sequence[Result], of_tasks: Sequence[TaskResult], of_queue: Sequence[Run] = ()) -> str:
    """Return the rows of all papers whose claims are confirmed or refuted."""
    rows = [(title, *row) for paper, title in TITLES.items() for row in _rows(paper, results, of_tasks, of_queue)]
    return table(("paper", *HEAD), [row for row in rows if any(word in row[-1] for word in DECIDED)], n_names=4)


def _rows(
    paper: str, results: Sequence[Result], of_tasks: Sequence[TaskResult], of_queue: Sequence[Run]
) -> list[tuple[str, ...]]:
    if paper == "gpst":
        return list(_rows_of_gpst(of_queue))
    if paper == "transformer_grammars":
        return list(_rows_of_grammars(results))
    return [_row_of_task(claim, of_tasks) for claim in CLAIMS if claim.tasks[0].startswith(f"{paper}/")]


def _rows_of_gpst(runs: Sequence[Run]) -> Iterator[tuple[str, ...]]:
    for circuit, order, size, both, accuracies in circuits_ahead(runs):
        difference, judgement = judge(*accuracies)
        yield f"Table 3, {circuit}", order, size, difference, *_counted(both, judgement)
    for treebank, order, size, trained, interval in tree_verdicts(runs):
        judgement = ("one seed: " if len(trained) == 1 else "") + verdict(interval.low, interval.high)
        yield f"Table 4, {treebank}", order, size, with_interval(interval, 2), *_counted([trained, trained], judgement)
    for place, claim, values, steps, improving in ablated(runs):
        difference, judgement = judge(*values)
        yield place, claim, GENERATED, difference, *_counts(values, steps, improving), _so_far(judgement, improving)


def _counted(both: Sequence[Sequence[Run]], judgement: str) -> tuple[str, ...]:
    """Return what `_counts` says of runs of the queue, and the verdict."""
    trained = {run["name"]: run for of_model in both for run in of_model}.values()
    improving = [run["still_improving"] for run in trained]
    counts = _counts(both, [run["last_step"]["step"] for run in trained], improving)
    return *counts, _so_far(judgement, improving)


def judge(better: Sequence[float], worse: Sequence[float], *, lower: bool = False, digits: int = 2) -> tuple[str, str]:
    """Return the difference of the means with its interval, and the verdict on the claim that one is better.

    >>> judge([4.0, 6.0, 8.0], [1.0, 2.0, 3.0])
    ('+4.00 (-0.16 to +8.16)', 'open')
    """
    difference = fmean(better) - fmean(worse)
    if min(len(better), len(worse)) < 2:
        return f"{difference:+,.{digits}f}", ONE_SEED
    test = compared(better, worse)
    if test is None:
        return f"{difference:+,.{digits}f}", EQUAL
    low, high = (-test.high, -test.low) if lower else (test.low, test.high)
    return with_interval(Interval(difference, test.low, test.high), digits), verdict(low, high)


def judge_constant(better: Sequence[float], constant: float) -> tuple[str, str]:
    """Return the same as `judge` for a figure that needs no training; the interval is Student's.

    >>> judge_constant([4.0, 5.0, 6.0], 2.0)
    ('+3.00 (+0.52 to +5.48)', 'confirmed')
    >>> judge_constant([4.0, 4.0, 4.0], 2.0)
    ('+2.00', 'open: equal values, no interval')
    """
    if len(set(better)) < 2:
        return f"{fmean(better) - constant:+,.2f}", EQUAL if len(better) > 1 else ONE_SEED
    interval = of_seeds([value - constant for value in better])
    return with_interval(interval, 2), verdict(interval.low, interval.high)


def judge_answers(better: Sequence[np.ndarray], worse: Sequence[np.ndarray]) -> tuple[str, str]:
    """Return the same as `judge`, in %, from right answers (1 or 0) of some models of each kind to the same examples.

    >>> judge_answers([np.array([1, 1, 1, 0] * 25)], [np.array([1, 1, 0, 0] * 25)])
    ('+25.00 (+16.47 to +33.53)', 'one seed: confirmed')
    >>> judge_answers([np.array([1, 1, 1, 0] * 25)], [np.array([1, 1, 0, 0] * 25), np.array([1, 1, 1, 0] * 25)])
    ('+12.50 (+0.00 to +33.53)', 'one seed: open')
    """
    pairs = [100.0 * (one.astype(float) - other) for one, other in product(better, worse)]
    of_pairs = [normal(pair.mean(), pair.std(ddof=1) / sqrt(len(pair))) for pair in pairs]
    low, high = min(pair.low for pair in of_pairs), max(pair.high for pair in of_pairs)
    mean = fmean(float(pair.mean()) for pair in pairs)
    return with_interval(Interval(mean, low, high), 2), f"one seed: {verdict(low, high)}"


def judge_suites(better: Sequence[SuiteAnswers], worse: Sequence[SuiteAnswers]) -> tuple[str, str]:
    """Return the same as `judge` for SyntaxGym's items: the mean over suites, by a bootstrap of each suite's items.

    >>> judge_suites([{"npi": "1101"}], [{"npi": "0-00"}])
    ('+66.67 (+0.00 to +100.00)', 'one seed: open')
    """
    differences = [item_differences(one, other).values() for one, other in product(better, worse)]
    of_pairs = [interval_of_means([suite for suite in suites if len(suite) > 1]) for suites in differences]
    low, high = min(pair.low for pair in of_pairs), max(pair.high for pair in of_pairs)
    mean = fmean(pair.value for pair in of_pairs)
    return with_interval(Interval(mean, low, high), 2), f"one seed: {verdict(low, high)}"


def _judged(claim: Claim, both: Sequence[Sequence[TaskResult]]) -> tuple[str, str]:
    if claim.constant:
        [better, _] = both
        values = [_value(result, claim.measure) or 0.0 for result in better]
        return judge_constant(values, _value(better[0], claim.constant) or 0.0)
    if min(map(len, both)) == 1 and all("answers" in result for of_model in both for result in of_model):
        lengths = claim.measure.removeprefix("accuracy, ")
        return judge_answers(*([right_of(result["answers"], lengths) for result in of_model] for of_model in both))
    values = ([_value(result, claim.measure) or 0.0 for result in of_model] for of_model in both)
    return judge(*values, lower=claim.lower)


def _value(result: TaskResult, measure: str) -> float | None:
    """Return a measure of a result; the accuracy over several lengths of formulas is computed from the answers."""
    if "answers" in result and " to " in measure:
        return 100.0 * float(right_of(result["answers"], measure.removeprefix("accuracy, ")).mean())
    return value_of(result, measure)


def _row_of_task(claim: Claim, results: Sequence[TaskResult]) -> tuple[str, ...]:
    order = f"{_title(claim, claim.better)} before {_title(claim, claim.worse)}"
    for task in claim.tasks:
        of_task = [result for result in results if result["task"] in SOURCES.get(task, (task,))]
        measured = [result for result in of_task if _value(result, claim.measure) is not None]
        both = [[result for result in measured if result["model"] == model] for model in (claim.better, claim.worse)]
        if claim.constant:
            both[1] = both[0]
        if all(both):
            difference, judgement = _judged(claim, both)
            trained = [result for of_model in both[: 1 if claim.constant else 2] for result in of_model]
            improving = [result["still_improving"] for result in trained if "still_improving" in result]
            counts = _counts(both, [result["steps"] for result in trained], improving)
            return claim.place, order, task.partition("/")[2], difference, *counts, _so_far(judgement, improving)
    return claim.place, order, "", "", "0", "", "", "not run"


def _title(claim: Claim, model: str) -> str:
    if claim.constant and model == claim.worse:
        return model
    titles = [TASKS[task].models[model] for task in claim.tasks if task in TASKS and model in TASKS[task].models]
    return titles[0] if titles else variant_of(model).title


def _rows_of_grammars(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    for name, group in grouped(results).items():
        for measure, order in PAPER.items():
            is_test = split_of(group[0]) == "test"
            pairs = combinations(order, 2) if is_test else VARIANT_PAIRS if measure == "perplexity" else ()
            for better, worse in pairs:
                claim = Claim(f"Table {1 if is_test else 2}, {measure}", better, worse, measure)
                if row := _row_of_grammar(claim, group):
                    yield row[0], row[1], name, *row[2:]


def _row_of_grammar(claim: Claim, group: Sequence[Result]) -> tuple[str, ...] | None:
    """Return the row of a claim; a bound or an estimate above an exact value shows nothing about the models."""
    measured = [result for result in group if value_of_grammar(result, claim.measure) is not None]
    both = [[result for result in measured if result["model"] == model] for model in (claim.better, claim.worse)]
    if not all(both):
        return None
    one, other = ([value_of_grammar(result, claim.measure) or 0.0 for result in of_model] for of_model in both)
    answers = [[result.get("syntaxgym", {}).get("answers") for result in of_model] for of_model in both]
    if claim.measure == "SG" and min(map(len, both)) == 1 and all(map(all, answers)):
        difference, judgement = judge_suites(*answers)
    else:
        difference, judgement = judge(one, other, lower=claim.lower)
    exact_is_lower = (claim.better == EXACT and fmean(one) < fmean(other)) or (
        claim.worse == EXACT and fmean(other) < fmean(one)
    )
    if claim.lower and exact_is_lower and judgement in DECIDED:
        of_draws = "an estimate, which may be too high" if claim.measure == ESTIMATED else ""
        judgement = f"open: {of_draws or ('a sum over some trees' if of_documents(both[0][0]) else 'a bound')}"
    trained = [result for of_model in both for result in of_model]
    improving = [is_still_improving(result) for result in trained if "validation" in result]
    counts = _counts(both, [result["settings"]["steps"] for result in trained], improving)
    order = f"{NAMES[claim.better]} before {NAMES[claim.worse]}"
    return claim.place, order, difference, *counts, _so_far(judgement, improving)


def _so_far(judgement: str, improving: Sequence[bool]) -> str:
    is_judged = judgement.endswith(DECIDED)  # perhaps after "one seed: "
    return f"{judgement} so far" if is_judged and 2 * sum(improving) > len(improving) else judgement


def _counts(both: Sequence[Sequence[Any]], steps: Iterable[int | None], improving: Sequence[bool]) -> tuple[str, ...]:
    numbers = [len(of_model) for of_model in both]
    step_numbers = sorted({number for number in steps if number is not None})
    return (
        str(numbers[0]) if numbers[0] == numbers[1] else f"{numbers[0]}, {numbers[1]}",
        " to ".join(f"{number:,}" for number in sorted({step_numbers[0], step_numbers[-1]})) if step_numbers else "",
        f"{sum(improving)} of {len(improving)}" if improving else "",
    )

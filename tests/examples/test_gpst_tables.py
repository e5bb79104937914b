"""The tables of GPST in RESULTS.md, from results of runs that are made up."""

from __future__ import annotations

from typing import Any

from accel.evaluation.induced_f1 import BASELINES, ORACLE
from accel.evaluation.syntaxgym import CIRCUITS
from examples.gpst.ablations import COLUMNS, IMPROVING, STEPS
from examples.gpst.ablations import MODELS as ABLATED
from examples.gpst.measure import NO_SYNC, STORED, TIES, WAYS
from examples.gpst_tables import (
    AHEAD,
    F1,
    GENERATED,
    LONGER,
    MODELS,
    SIZES,
    ablations,
    differences,
    one_tree,
    syntax,
    trainings,
    trees,
)
from examples.queue_runs import RUNS
from examples.verdicts import decided, verdicts

N = 20  # sentences


def part(seed: int) -> dict[str, Any]:
    """Return the tree scores of a seed: sync adds 10 or 20 points, and inside trees are as good as right-branching."""
    f1 = dict.fromkeys(STORED, [50.0] * N) | {"left-to-right": [40.0 + seed] * N}
    f1[NO_SYNC] = [value - 10.0 * (1 + number % 2) for number, value in enumerate(f1["left-to-right"])]
    scores = {kind: {"sentence_f1": 30.0 + seed, "corpus_f1": 20.0} for kind in (*WAYS, *BASELINES, ORACLE)}
    return {"scores": scores, "of_sentences": f1}


def run(model: str, seed: int, size: str = "gpst_small") -> dict[str, Any]:
    name = f"{size}/{model}-{seed}"
    more = seed / 100 + (model == "gpst") / 10
    measured: dict[str, Any] = {
        "syntaxgym": {"circuits": dict.fromkeys(CIRCUITS, 0.5 + more)},
        "blimp": {"accuracy": {worth: {"mean": 0.25 + more} for worth in TIES}},
    }
    if model == "gpst":
        measured |= {"trees wsj": part(seed), "trees tg_example": part(seed)}
    figures = {f"{name}/evaluation.json": {"perplexity": 90.0 + seed}, f"{name}/measured.json": measured}
    return {"name": name, "seed": seed, "figures": figures, "validation_loss": [[1, 5.0], [2, 4.0]], "commit": "0" * 40,
            "still_improving": True, "last_step": {"step": 2}, "core_hours": 0.25}  # fmt: skip


def rows(text: str) -> list[list[str]]:
    return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines()[2:]]


SEEDS = [run(model, seed) for model in MODELS for seed in range(3)]


def test_runs_of_the_tables_are_in_the_queue() -> None:
    names = {name.rpartition("-")[0] for one in RUNS if (name := one.name).startswith("gpst")}
    of_sizes = {f"{size}/{model}" for size in SIZES for model in MODELS}
    assert names == of_sizes | {f"{LONGER}/one_tree", f"{GENERATED}/ablations"}


def test_trees() -> None:
    table = rows(trees(SEEDS))
    assert table[0] == ["small", "WSJ", "inside", "31.0 ± 1.0", "20.0 ± 0.0", "57.46", "3"]
    assert table[4] == ["small", "WSJ", "random", "30.0", "20.0", "", "3"]
    assert table[9][:4] == ["small", "tg_example", "inside", "31.0 ± 1.0"] and table[9][5] == ""
    assert [row[3] for row in table[-2:]] == ["not run: `make results DATA=data`"] * 2


def test_differences_have_paired_intervals() -> None:
    table = rows(differences(SEEDS))
    assert [row[2] for row in table[:5]] == ["0", "1", "2", "all", "over seeds"]
    assert all(row[3].startswith("+15.0 (+1") for row in table[:4])
    assert table[4][3:6] == ["+15.0 (+15.0 to +15.0)", "+9.0 (+6.5 to +11.5)", "+0.0 (+0.0 to +0.0)"]  # t = 4.303
    assert table[4][6] == "-9.0 (-11.5 to -6.5)"
    assert table[3][5:] == ["+0.0 (+0.0 to +0.0)", "-9.0 (-9.0 to -9.0)"]
    assert [row[2] for row in rows(differences([run("gpst", 2)]))[:2]] == ["2", "2"]
    equal, less = run("gpst", 0), run("gpst", 0)
    for one, other in ((equal, [40.0] * N), (less, [60.0] * N)):
        one["figures"]["gpst_small/gpst-0/measured.json"]["trees wsj"]["of_sentences"][NO_SYNC] = other
    cells = [rows(differences([one]))[0][3] for one in (equal, less)]
    assert cells == ["+0.0 (+0.0 to +0.0)", "-20.0 (-20.0 to -20.0)"]


def test_syntax() -> None:
    small, gpt2, difference, *larger, paper, paper_gpt2 = rows(syntax(SEEDS))
    assert small[:3] == ["small", "GPST", "61.0 ± 1.0"] and small[-2:] == ["91.0 ± 1.0", "3"]
    assert small[8:12] == ["61.0 ± 1.0", *["36.0 ± 1.0"] * 3] and gpt2[2] == "51.0 ± 1.0"
    assert difference[1] == "GPST minus GPT-2 (p)" and difference[2].startswith("+10.0 (0.0")
    assert [row[2] for row in larger] == ["not run: `make results DATA=data`"] * 4
    assert paper[8] == "73.41" and paper_gpt2[8] == "66.62"
    assert {len(row) for row in rows(syntax(SEEDS))} == {len(small)}


def test_verdicts_on_sync_are_those_of_the_longest_trainings() -> None:
    head, _, *table = verdicts("gpst", [], [], SEEDS).splitlines()
    assert head.startswith("| in the paper | its order") and len(table) == len(AHEAD) + 4
    over_seeds = "Table 4, WSJ | synchronised search before the search without | gpst_small | +15.00 (+15.00 to +15.00)"
    assert table[-4] == f"| {over_seeds} | 3 | 2 | 3 of 3 | confirmed so far |"
    assert table[-3].startswith(
        "| Table 4, WSJ | whole sentences before left to right | gpst_small | +9.00 (+6.52 to +11.48)"
    )
    assert all(row.startswith("| Table 4, tg_example |") for row in table[-2:])
    both = [*SEEDS, run("gpst", 0, "gpst_longer")]
    assert decided([], [], both).count("| gpst_longer | +15.00 (+1") == 2
    assert "| 1 | 2 | 1 of 1 | one seed: confirmed so far |" in decided([], [], both)
    assert not decided([], [], []).splitlines()[2:]


def test_verdicts_on_circuits_need_both_models_and_two_seeds() -> None:
    table = rows(verdicts("gpst", [], [], SEEDS))[: len(AHEAD)]
    assert [row[0] for row in table] == [f"Table 3, {name}" for name in AHEAD]
    # The means are 61 and 51, both deviations 1; Student's quantile of four degrees of freedom is 2.776.
    *ahead, distant = [tuple(row[1:]) for row in table]
    assert set(ahead) == {
        ("GPST before GPT-2", "gpst_small", "+10.00 (+7.73 to +12.27)", "3", "2", "6 of 6", "confirmed so far")
    }
    assert distant[::2] == ("GPT-2 before GPST", "-10.00 (-12.27 to -7.73)", "2", "refuted so far")
    longer = [run("gpst", 0, "gpst_longer")]
    assert rows(verdicts("gpst", [], [], SEEDS + longer))[0][2] == "gpst_small"
    longer.append(run("gpt2", 0, "gpst_longer"))
    assert rows(verdicts("gpst", [], [], SEEDS + longer))[0][2:] == [
        "gpst_longer", "+10.00", "1", "2", "2 of 2", "open: one seed, no interval",
    ]  # fmt: skip


def test_one_tree() -> None:
    measured = {"gpst": {"apart": 40.0, "apart, summed": 30.0}, "gpt2": {"apart": 20.0}, "sentences": 500}
    figures = {"gpst_longer/one_tree-0/one_tree.json": measured}
    assert rows(one_tree([{"name": "gpst_longer/one_tree-0", "figures": figures}])) == [
        ["longer", "GPST", "40.0", "30.0", "500", "1"], ["longer", "GPT-2", "20.0", "", "500", "1"],
    ]  # fmt: skip
    assert [row[2:] for row in rows(one_tree(SEEDS))] == [["not run: `make results DATA=data`", "", "", "0"]] * 2


def of_ablations(seed: int) -> dict[str, Any]:
    """Return the result of a seed; every model has an F1 of its own, and leans as much."""
    of_trees = dict.fromkeys(COLUMNS, 60.0) | {STEPS: 9, IMPROVING: 1.0}
    figures = {model: of_trees | {F1: 80.0 + seed - 20 * n} for n, model in enumerate(ABLATED) if n < 3}
    figures |= {model: {"in contexts": 12.0, STEPS: 9, IMPROVING: 1.0} for model in ABLATED if model not in figures}
    name = f"{GENERATED}/ablations-{seed}"
    return {"name": name, "seed": seed, "figures": {f"{name}/figures.json": figures}}


def test_ablations() -> None:
    runs = [of_ablations(seed) for seed in range(3)]
    table = rows(ablations(runs))
    assert [row[0] for row in table] == list(ABLATED)
    assert table[1][4] == "61.0 ± 1.0" and table[1][-3:] == ["50.27", "-20.0 (-20.0 to -20.0)", "3"]
    assert table[0][-3:] == ["57.46", "", "3"] and table[-1][1:] == [
        "12.0 ± 0.0",
        *[""] * len(COLUMNS[1:]),
        "",
        "",
        "3",
    ]
    assert [row[1] for row in rows(ablations([]))] == ["not run: `make results DATA=data`"] * len(ABLATED)
    surrogates, stop, lean = rows(verdicts("gpst", [], [], runs))
    assert surrogates[2:] == [GENERATED, "+20.00 (+17.73 to +22.27)", "3", "9", "6 of 6", "confirmed so far"]
    assert stop[3] == "+40.00 (+37.73 to +42.27)" and lean[-1] == "open: equal values, no interval"
    assert rows(verdicts("gpst", [], [], runs[:1]))[0][3:] == [
        "+20.00",
        "1",
        "9",
        "2 of 2",
        "open: one seed, no interval",
    ]


def test_trainings() -> None:
    table = rows(trainings(SEEDS))
    assert table[0] == ["small", "GPST", "0", "4.0000", "2", "yes", "4.8", "0.25", "0000000"]
    assert len(table) == 10 and table[-1][3] == "not run: `make results DATA=data`"

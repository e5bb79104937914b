"""The tables of Transformer Grammars' analyses in RESULTS.md, from figures that are made up."""

from __future__ import annotations

import json
from typing import Any

import pytest

from examples.analysis_tables import NOT_RUN, WRITTEN, analyses
from examples.queue_runs import ANALYSES


def run(name: str, found: Any) -> dict[str, Any]:
    """Return the content of a result file of the queue."""
    result = {"name": f"analyses/{name}", "figures": {f"analyses/{name}/{name}.json": {"found": found}}}
    return dict(json.loads(json.dumps(result)))


def rows(text: str) -> list[list[str]]:
    return [
        line.removeprefix("| ").removesuffix(" |").split(" | ") for line in text.splitlines()[2:] if line[:1] == "|"
    ]


def test_every_analysis_of_the_queue_has_a_table() -> None:
    assert {f"analyses/{name}" for name in WRITTEN} == {one.name for one in ANALYSES}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_was_not_run_is_said(name: str) -> None:
    assert analyses(name, [run("of another name", {})]) == NOT_RUN


def coefficient(estimate: float, error: float = 0.01) -> dict[str, float]:
    return {"estimate": estimate, "standard_error": error, "terminals": 1200}


def test_regressions() -> None:
    frequency = {"HighFreq": 0.0, "MediumFreq": -0.1, "LowFreq": 0.0}
    of_seeds = {"HighFreq": [1.0, 3.0, 2.0], "MediumFreq": [0.0, 0.0, 0.0], "LowFreq": [9.0, 11.0, 10.0]}
    of_txl = {"HighFreq": [0.0, 0.0, 0.0], "MediumFreq": [0.0, -2.0, -1.0], "LowFreq": [0.0, 0.0, 0.0]}
    one_seed = {"InContextCurSentence": [0.03], "NotInContext": [0.01]}
    figures = {
        "thresholds": [1e-3, 1e-5],
        "frequency": {
            "absent": [],
            "coefficients": {name: coefficient(x) for name, x in frequency.items()},
            "means": {"tg": of_seeds, "txl_cc": of_txl},
        },
        "copying": {
            "absent": ["InContextPrevSentences"],
            "coefficients": {"InContextCurSentence": coefficient(0.01), "NotInContext": coefficient(0.0)},
            "means": {"tg": one_seed, "txl_cc": {name: [0.0] for name in one_seed}},
        },
        "stack": {
            "absent": ["NotInContext"],
            "coefficients": {"OnStack": coefficient(0.3), "OnlyComposed": coefficient(0.1)},
            "means": {kind: {"OnStack": [0.0], "OnlyComposed": [0.0]} for kind in ("tg", "txl_cc")},
        },
    }
    text = analyses("regressions", [run("regressions", figures)])
    high, low = "+1.0000 (-1.2670 to +3.2670)", "-9.0000 (-11.2670 to -6.7330)"  # 2.7764 sqrt(2 / 3), by t of 4 degrees
    here = "+0.0200"
    assert rows(text) == [
        ["frequency", "HighFreq", "1,200", "+0.0000 (-0.0196 to +0.0196)", "", "-0.05", ""],
        ["frequency", "MediumFreq", "1,200", "-0.1000 (-0.1196 to -0.0804)", "", "-0.24", ""],
        ["frequency", "LowFreq", "1,200", "+0.0000 (-0.0196 to +0.0196)", "", "-0.55", ""],
        ["frequency", "HighFreq minus MediumFreq", "", "+0.1000 (+0.0723 to +0.1277)", high, "+0.19", "open"],
        ["frequency", "MediumFreq minus LowFreq", "", "-0.1000 (-0.1277 to -0.0723)", low, "+0.31", "refuted"],
        ["copying", "InContextCurSentence", "1,200", "+0.0100 (-0.0096 to +0.0296)", "", "-0.10", ""],
        ["copying", "NotInContext", "1,200", "+0.0000 (-0.0196 to +0.0196)", "", "-0.13", ""],
        ["copying", "InContextCurSentence minus NotInContext", "", "+0.0100 (-0.0177 to +0.0377)", here, "+0.03",
         "open: one seed, no interval"],
        ["stack", "OnStack", "1,200", "+0.3000 (+0.2804 to +0.3196)", "", "", ""],
        ["stack", "OnlyComposed", "1,200", "+0.1000 (+0.0804 to +0.1196)", "", "", ""],
        ["stack", "OnStack minus OnlyComposed", "", "+0.2000 (+0.1723 to +0.2277)", "+0.0000", "", ""],
    ]  # fmt: skip
    assert text.endswith(
        "at least 0.001, medium: 1e-05. No terminal is InContextPrevSentences. No terminal is NotInContext."
    )


def test_steps_of_the_evolution_are_in_order() -> None:
    figures = {"tg": {step: [{"perplexity": 9.0}, {"perplexity": 11.0}] for step in (50, 100, 1000)}}
    steps = [row[0] for row in rows(analyses("evolution", [run("evolution", figures)]))]
    assert steps == ["50", "100", "1,000"]


def test_hybrids() -> None:
    figures = [{"kind": "top", "k": k, "found": [{"perplexity": 10.0 + k}, {"perplexity": 12.0 + k}]} for k in (0, 1)]
    assert rows(analyses("hybrids", [run("hybrids", figures)])) == [
        ["top layers", "0", "2", "11.000 ± 1.414"],
        ["top layers", "1", "2", "12.000 ± 1.414"],
    ]


def test_products_stand_below_the_mixtures() -> None:
    row: dict[str, Any] = {"size": 2, "mixture": [{"perplexity": 10.0}]}
    assert "As products" not in analyses("ensembles", [run("ensembles", {"tg": [row]})])
    row["product"] = [{"perplexity": 9.5}]
    text = analyses("ensembles", [run("ensembles", {"tg": [row]})])
    assert rows(text.split("As products:")[0]) == [["TG", "2", "1", "10.000"]]
    assert rows(text.partition("As products:\n\n")[2]) == [["TG", "2", "1", "10.000", "9.500"]]

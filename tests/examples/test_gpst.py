"""The examples of GPST, shortened to seconds: they run, share a model, and compare figures with the expected ones."""

from __future__ import annotations

import json
from math import exp, isclose, prod
from pathlib import Path

import numpy as np
import pytest

import accel
from accel.data.generated.grammar import ENGLISH
from accel.evaluation.induced_f1 import BASELINES
from accel.models.gpst.config import Config, parameter_shapes
from accel.search.pools import Limits
from accel.search.word_level import surprisals
from accel.trained.opening import open_model
from accel.training.run import METRICS
from examples.commands import EXPECTED, compare
from examples.gpst import ablations, induction, runs
from refimpl.gpst import losses as exact

SHORT = ["--steps", "24", "--sentences", "300", "--test", "12", "--batch-size", "2", "--beam", "4"]
OF_MODEL = ["inside", "parser", "left-to-right", "left-to-right, no sync"]
ALONE = ["in contexts", "apart", "apart, summed"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ("d_model=16", "n_heads=2", "type_layers=1", "token_layers=2", "d_compose=8", "compose_heads=2")
    monkeypatch.setattr(runs, "SETTINGS", (*settings, "maximum_rate=1e-2", "dropout=0"))


def test_programs(tmp_path: Path, small: None, capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--out", str(tmp_path), *SHORT]
    figures = induction.main(short)
    out = capsys.readouterr().out
    assert list(figures) == ["GPST", *OF_MODEL, *BASELINES, "oracle"] and list(figures["GPST"]) == ALONE
    assert all(0 <= value <= 100 for name in (*OF_MODEL, *BASELINES, "oracle") for value in figures[name].values())
    assert out.count("$ grove parse") == 2 and "GPST, in contexts: " in out.partition("figures are not as expected")[2]
    assert runs.test_sentences(runs.read_options("", "", short))[-1][0] in (tmp_path / "gpst" / "trees.svg").read_text()
    assert json.loads((tmp_path / "gpst" / "figures.json").read_text()) == figures
    trained = (tmp_path / "gpst" / METRICS).read_bytes()
    losses = [json.loads(line)["loss"] for line in trained.splitlines()]
    assert len(losses) == 24 and losses[-1] < losses[0]
    every = ablations.main(short)
    assert list(every) == list(ablations.MODELS) and json.loads((tmp_path / "figures.json").read_text()) == every
    assert (tmp_path / "gpst" / METRICS).read_bytes() == trained  # the same model
    assert {name: every["GPST"][name] for name in ALONE} == figures["GPST"]
    for row, column in ablations.TREES.items():
        assert every["GPST"][column] == figures[row]["sentence F1"]
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| GPT-2")]
    assert len(rows) == 2 and all(row[1].strip() and not row[-1].strip(" |") for row in rows)
    assert induction.main(short) == figures  # complete runs are only measured again


def test_sentences_read_apart(tmp_path: Path, small: None) -> None:
    """The bound from the induced trees is above the perplexity that sums the parses of a search over all parses."""
    options = runs.read_options("induction", "", ["--out", str(tmp_path), *SHORT])
    runs.train(options, "gpst")
    model, sentences = open_model(accel.load("cpu"), tmp_path / "gpst"), runs.test_sentences(options)
    few = [words for words in sentences if len(words) <= 6]
    perplexities = runs.apart(accel.load("cpu"), model, few, 42)  # six words have 42 binary trees
    ids = [model.vocabulary.encode_words(words) for words in few]
    bits = [sum(x) for x in surprisals(accel.load("cpu"), model, ids, Limits(42, one_pool=True))]
    n = sum(map(len, few))
    assert few and isclose(perplexities["apart, summed"], 2 ** (sum(bits) / n), rel_tol=1e-4)
    config = exact.Config(model.config.n_heads, model.config.compose_heads, model.config.parser_heads)
    p = {name: x.astype(np.float64) for name, x in model.parameters.items()}
    nats = sum(exact.losses(config, p, [np.array(sentence)]).ar * (2 * len(sentence) - 1) for sentence in ids)
    assert isclose(perplexities["apart"], exp(nats / n), rel_tol=1e-4)
    assert perplexities["apart"] > perplexities["apart, summed"] > 1
    assert runs.best_perplexity(sentences) > ENGLISH.perplexity  # full stops do not count as words here


def test_gpt2_of_the_same_size() -> None:
    sizes = {}
    for title, (_, more) in ablations.MODELS.items():
        words = [setting for setting in (*runs.SETTINGS, *more) if isinstance(setting, str) and "=" in setting]
        sizes[title] = dict(word.split("=") for word in words) | {"model": "gpt2" if "gpt2" in more else "gpst"}
    counts = {title: _count(of_one) for title, of_one in sizes.items()}
    assert abs(counts["GPT-2, as many parameters"] / counts["GPST"] - 1) < 0.05
    assert counts["GPT-2, as many layers"] < counts["GPST"]


def _count(settings: dict[str, str]) -> int:
    names = ("d_model", "n_heads", "type_layers", "token_layers", "d_compose")
    of_model = {name: int(settings[name]) for name in names}
    shapes = parameter_shapes(Config(81, settings["model"], n_positions=129, **of_model))
    return sum(map(prod, shapes.values()))


def test_expected_figures_are_complete() -> None:
    expected = json.loads(Path(runs.__file__).with_name(EXPECTED).read_text())
    assert list(expected) == ["induction", "ablations"]
    assert list(expected["induction"]) == ["GPST", *OF_MODEL, *BASELINES, "oracle"]
    assert {"GPST", "GPT-2, as many layers"} <= expected["ablations"].keys() <= ablations.MODELS.keys()
    for program, models in expected.items():
        exact = {model: {name: pair[0] for name, pair in values.items()} for model, values in models.items()}
        assert compare(str(Path(runs.__file__).with_name(program)), exact) == []
        exact["GPST"] = dict.fromkeys(exact["GPST"], float("nan"))
        assert len(compare(str(Path(runs.__file__).with_name(program)), exact)) == len(exact["GPST"])

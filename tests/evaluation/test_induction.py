"""One table of induced trees: rows of members, intervals and tests, and the command over models of three kinds."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import accel
from accel.data.published.wsj import GoldSentence, read_gold
from accel.evaluation.induced_f1 import PRESETS, score, score_baselines, score_oracle, sentence_scores, trivial_spans
from accel.evaluation.induction import Row, baselines, difference, interval, row, unread, ways_of, welch_of_members
from accel.evaluation.significance import bootstrap_interval, welch
from accel.parsing.distances import induced_spans
from accel.trained.opening import open_model
from accel.training.run import BEST
from tests.fixtures.fasttrees_runs import save_classifier
from tests.fixtures.gpst_runs import closed, text
from tests.fixtures.treeformer_runs import SENTENCES, model_of, save_run

__all__ = ["closed", "text"]

GOLD = [
    GoldSentence(list("abcd"), [("S", 0, 3), ("NP", 0, 1), ("VP", 2, 3)]),
    GoldSentence(list("abc"), [("S", 0, 2), ("VP", 1, 2)]),
    GoldSentence(["a"], [("S", 0, 0)]),
]
RIGHT = [[(0, 3), (1, 3), (2, 3)], [(0, 2), (1, 2)], []]
LEFT = [[(0, 3), (0, 2), (0, 1)], [(0, 2), (0, 1)], []]


def write_gold(path: Path, lines: list[str]) -> Path:
    """Write trees without tags, in which the last two words of every line are a constituent."""
    trees = [line.split() for line in lines]
    path.write_text("".join(f"(S {' '.join(words[:-2])} (VP {' '.join(words[-2:])}))\n" for words in trees))
    return path


@pytest.mark.parametrize("preset", PRESETS)
def test_sentences_make_the_mean(preset: str) -> None:
    for spans in (RIGHT, LEFT):
        of_sentences = sentence_scores(GOLD, spans, preset)
        assert np.mean(of_sentences) == pytest.approx(score(GOLD, spans, preset).sentence_f1)
        assert len(of_sentences) == 3 - (preset == "compound_pcfg")


def test_a_row_by_hand() -> None:
    """Right-branching trees have F1 50 and 100 in the first two sentences, and 100 in the third, which has no span."""
    right, both = row(GOLD, [RIGHT], "fasttrees"), row(GOLD, [RIGHT, LEFT], "fasttrees")
    assert right.of_sentences == [[50, 100, 100]] and right.sentence_f1 == pytest.approx(250 / 3)
    assert right.spread is None and right.corpus_f1 == pytest.approx(200 * 2 / 6)
    assert both.sentence_f1 == pytest.approx((250 / 3 + 150 / 3) / 2) and both.recall("VP") == pytest.approx(50)
    assert both.spread == pytest.approx(100 / 3 / 2**0.5)
    assert interval(both) == bootstrap_interval([50, 50, 100])
    assert difference(right, both) == bootstrap_interval([0, 50, 0])
    assert difference(right, right) == (0, 0, 0)
    alone = row(GOLD[:1], [RIGHT[:1]], "fasttrees")
    assert interval(alone) is None and difference(alone, alone) is None


def test_welch_needs_members_that_differ() -> None:
    right, both = row(GOLD, [RIGHT], "fasttrees"), row(GOLD, [RIGHT, LEFT], "fasttrees")
    same, three = row(GOLD, [RIGHT, RIGHT], "fasttrees"), row(GOLD, [LEFT, RIGHT, LEFT], "fasttrees")
    assert welch_of_members(right, both) is None and welch_of_members(same, both) is None
    assert welch_of_members(both, three) == welch([250 / 3, 50], [50, 250 / 3, 50])


def test_baselines_and_oracle() -> None:
    """The rows are those of `grove parse`, except that every set of random trees has another seed."""
    rows, parse = baselines(GOLD, "fasttrees", 3), score_baselines(GOLD)
    for name in ("balanced", "left", "right"):
        assert rows[name].scores == [parse[name]]
    assert rows["oracle"].scores == [score_oracle(GOLD)]
    for seed, member in enumerate(rows["random"].scores):
        rng = np.random.Generator(np.random.Philox(seed))
        assert member == score(GOLD, [trivial_spans("random", len(one.words), rng) for one in GOLD])
    assert len(rows["random"].scores) == 3 and isinstance(rows["random"], Row)


def test_baselines_of_the_wall_street_journal(data_dir: Path) -> None:
    """Sentences of at most ten words of its free sample: right-branching is far above random trees."""
    gold = list(read_gold(data_dir / "ptb_sample" / "wsj_sample.mrg.xz", "wsj10"))
    rows = baselines(gold, "fasttrees", 5)
    random, right = rows["random"], rows["right"]
    assert len(gold) == 555 and right.sentence_f1 == pytest.approx(58.6, abs=0.05)
    assert random.sentence_f1 == pytest.approx(31.7, abs=0.05) and random.spread is not None and random.spread < 1.5
    ends, apart = interval(random), difference(right, random)
    assert ends is not None and ends.low < random.sentence_f1 < ends.high < 35
    assert apart is not None and apart.low > 20 and apart.value == pytest.approx(58.6 - 31.7, abs=0.1)


@pytest.mark.parametrize("name", ["ref", "cpu"])
def test_backends_make_one_table(tmp_path: Path, name: str, grove: Callable[..., str]) -> None:
    run, gold = save_classifier(tmp_path / "run", 3), write_gold(tmp_path / "gold", ["the dog sees her", "her old dog"])
    command = ("induction", "--checkpoint", run, "--gold", gold, "--convention", "plain")
    assert grove(*command, "--backend", name) == grove(*command, "--batch-size", 1)


def test_ways_of_parsing_and_unreadable_sentences(tmp_path: Path, closed: Path) -> None:
    ops = accel.load("cpu")
    options = {"layers": [2, 1], "split": "biased", "modes": ["parser", "left-to-right"], "beam": 3, "max_height": 4}
    models = [save_classifier(tmp_path / "f", 0), save_run(tmp_path / "t", model_of()), closed]
    fasttrees, treeformer, gpst = (open_model(ops, path) for path in models)
    assert ways_of(fasttrees, **options) == {  # type: ignore[arg-type]
        "layer 2": {"layer": 2, "split": "biased"}, "layer 1": {"layer": 1, "split": "biased"},
    }  # fmt: skip
    alone = open_model(ops, save_classifier(tmp_path / "alone", 1, n_layers=1))
    for model, only in ((fasttrees, 2), (alone, 1)):
        assert list(ways_of(model, **options | {"layers": None})) == [f"layer {only}"]  # type: ignore[arg-type]
    assert ways_of(treeformer, **options) == {"chart": {"max_height": 4}}  # type: ignore[arg-type]
    left_to_right = {"mode": "left-to-right", "beam": 3}
    assert ways_of(gpst, **options) == {"parser": {"mode": "parser"}, "left-to-right": left_to_right}  # type: ignore[arg-type]
    words = ["the", "dog"] * 46
    gold = [GoldSentence(["zebra"], []), GoldSentence(words, []), GoldSentence(words[:4], [])]
    closed_words = {0: "the word 'zebra' is not in the closed vocabulary of 73 words"}
    assert unread(gpst, {"mode": "parser"}, gold) == closed_words
    long = "a sentence of 92 tokens, more than a context of the model has, 90"
    assert unread(gpst, left_to_right, gold) == closed_words | {1: long}
    assert list(unread(treeformer, {"max_height": 4}, gold)) == [0, 1]
    assert unread(fasttrees, {"layer": 2, "split": "biased"}, gold) == {}


def test_command_over_two_kinds_of_models(tmp_path: Path, text: Path, closed: Path, grove: Callable[..., str]) -> None:
    """Two seeds share a row; every way of GPST has a row; scores are those of `grove parse` over the same sentences."""
    lines = [line for line in text.read_text().splitlines() if len(line.split()) > 3][:12]
    gold = write_gold(tmp_path / "gold", [*lines, "zebra dogs see it"])
    runs = [save_classifier(tmp_path / "one", 1), save_classifier(tmp_path / "two", 2)]
    options = ("--gold", gold, "--convention", "plain", "--seeds", 3, "--beam", 2, "--layers", 1, 2)
    checkpoints = [part for path in (f"f={runs[0]}", closed, f"f={runs[1]}") for part in ("--checkpoint", path)]
    out = grove("induction", *checkpoints, *options, "--out", tmp_path / "out.json")
    names = ["f, layer 1", "f, layer 2", "gpst, inside", "gpst, parser", "gpst, left-to-right"]
    names += ["random", "balanced", "left", "right", "oracle"]
    report = out.splitlines()
    assert [line[:20].strip() for line in report[1:11]] == names
    assert "over 12 of 13 sentences" in report
    assert sum(f"sentences it cannot read: 1, the first {gold}:13: the word 'zebra'" in line for line in report) == 3
    content = json.loads((tmp_path / "out.json").read_text())
    assert content["against"] == "f, layer 1" and content["sentences"] == 12 and list(content["rows"]) == names
    assert list(content["left_out"]) == ["13"] and set(content["left_out"]["13"]) == set(names[2:5])
    sentences = list(read_gold(gold, "plain"))[:12]
    model = open_model(accel.load("cpu"), runs[1])
    spans = list(induced_spans(accel.load("cpu"), model, [one.words for one in sentences]))
    assert content["rows"]["f, layer 2"]["members"][1] == asdict(score(sentences, spans))
    assert content["rows"]["f, layer 2"]["spread"] is not None and content["rows"]["gpst, inside"]["spread"] is None
    write_gold(tmp_path / "less", lines)
    parsed = grove("parse", "--checkpoint", closed, *options[2:4], "--gold", tmp_path / "less", "--mode", "parser")
    row_of = {line[:20].strip(): line[20:].split() for line in report[1:11]}
    assert parsed.splitlines()[1].split()[1:3] == [row_of["gpst, parser"][1], row_of["gpst, parser"][6]]
    again = grove("induction", *checkpoints, *options, "--against", "right")
    assert again.splitlines()[0].split()[-7:-5] == ["less", "right"]


def test_command_over_charts(tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]) -> None:
    """A sentence that is longer than the limited height of a chart has no tree in the chart."""
    run, gold = save_run(tmp_path / "run", model_of()), write_gold(tmp_path / "gold", list(SENTENCES))
    command = ("induction", "--checkpoint", run, "--gold", gold, "--convention", "plain")
    lines = grove(*command).splitlines()
    assert lines[1].startswith("treeformer, chart") and f"over {len(SENTENCES)} of {len(SENTENCES)} sentences" in lines
    shortest = min(len(line.split()) for line in SENTENCES)
    n_sentences = sum(len(line.split()) == shortest for line in SENTENCES)
    output = grove(*command, "--max-height", shortest)
    assert f"over {n_sentences} of {len(SENTENCES)} sentences" in output and "but the chart ends at height" in output
    write_gold(gold, [line for line in SENTENCES if len(line.split()) > shortest])
    wrong = mistake(*command, "--max-height", shortest)
    assert wrong.startswith(f"{gold}:1: ") and wrong.endswith("; no sentence of this file can be read by all models")


def test_mistakes_are_named(tmp_path: Path, mistake: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    run, gold = save_classifier(tmp_path / "run", 0), write_gold(tmp_path / "gold", ["the dog sees her"])
    command = ("induction", "--checkpoint", run, "--gold", gold, "--convention", "plain")
    assert mistake(*command, "--checkpoint", f"x={run}").endswith("given twice; seeds of a model are different runs")
    use = "with another name"
    other = run / "copy.safetensors"
    shutil.copy(run / BEST, other)
    wrong = f"{other}: fasttrees: a checkpoint of the same run as {run / BEST}; use NAME={other} {use}"
    assert mistake(*command, "--checkpoint", other) == wrong
    low = save_classifier(tmp_path / "low", 0, n_layers=1) / BEST
    wrong = f"{low}: fasttrees: n_layers is 1, and 2 in {run / BEST}; use NAME={low} {use}"
    assert mistake(*command, "--checkpoint", low) == wrong
    rows = "fasttrees, layer 2; random; balanced; left; right; oracle"
    assert mistake(*command, "--against", "x") == f"--against x: choose a row of {rows}"
    assert mistake(*command, "--layers", 7) == f"--layers 7: {run / BEST} has layers 1 to 2"
    assert mistake(*command, "--layers", 1, 1) == "--layers 1 1: give every one once"
    assert mistake(*command, "--modes", "parser", "parser") == "--modes parser parser: give every one once"
    assert mistake(*command, "--seeds", 0) == "--seeds 0: at least 1 is needed"
    assert mistake(*command, "--batch-size", 0) == "--batch-size 0: at least 1 is needed"
    assert mistake(*command, "--out", tmp_path) == f"--out {tmp_path}: a directory: name a file in it"
    assert mistake(*command[:4], tmp_path / "no") == f"{tmp_path / 'no'}: No such file or directory: check the name"
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert mistake(*command) == "tests of significance need scipy: pip install 'grove-lm[analysis]'"

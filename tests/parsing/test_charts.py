"""Trees of trained charts are those of the reference; the commands that print and draw them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import numpy as np
import pytest

import accel
from accel.autodiff.arrays import host
from accel.data.files.brackets import read_trees
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.vocabulary import END, END_ID
from accel.data.vocabularies.words import Words
from accel.parsing.charts import chart_spans, frame, largest_weights, spans_of_words, split_weights
from accel.parsing.spans import find_spans
from accel.trained.opening import Model
from refimpl import transformer as reference
from refimpl.treeformer import cky_pooling
from refimpl.trees import START, Tree, spans, words
from tests.fixtures.command_line import Grove
from tests.fixtures.device_parameters import model_on
from tests.fixtures.treeformer_runs import CONFIG, KNOWN, SENTENCES, model_of, save_run

WORDS = Words((START, END, *KNOWN.terminals))
VARIANTS = ("paper", "released")


def reference_tree(model: Model, ids: list[int], sentence: list[str]) -> Tree:
    """Return the reference's tree over the words, from a chart that also contains the symbols around them."""
    config, (before, after) = model.config, frame(model)
    tokens = reference.encode(model.parameters, np.array([*before, *ids, *after]), config.n_heads)
    chart_parameters = {
        name.removeprefix("chart."): x for name, x in model.parameters.items() if name.startswith("chart.")
    }
    chart = cky_pooling.cky_pool(tokens, chart_parameters, None, config.chart, config.n_heads)
    first, n = len(before), len(ids)
    inner = {(i - first, j - first): w for (i, j), w in chart.weights.items() if first <= i and j < first + n}
    return cky_pooling.chart_trees(cky_pooling.Chart(n, {}, inner), sentence)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize("batch_size", [1, 64])
def test_trees_are_the_reference(variant: str, n_classes: int, batch_size: int) -> None:
    """Trees leave out the end symbol of an encoder-decoder, and the start and end symbols of a classifier."""
    config = replace(CONFIG, chart=variant, n_classes=n_classes)
    model, split = model_of(config, WORDS if n_classes else KNOWN), [line.split() for line in SENTENCES]
    encode = model.vocabulary.encode if n_classes else model.vocabulary.encode_words
    ids = [encode(sentence) for sentence in split]
    expected = [reference_tree(model, *pair) for pair in zip(ids, split, strict=True)]
    predicted = list(chart_spans(accel.load("cpu"), model, ids, batch_size=batch_size))
    assert predicted == [[(i, j) for _, i, j in spans(tree) if i < j] for tree in expected]
    assert list(chart_spans(accel.load("cpu"), model, ids, max_height=7)) == predicted


@pytest.mark.parametrize("max_height", [None, 5, 3])
def test_weights_are_those_of_the_words(backend: ModuleType, max_height: int | None) -> None:
    """A phrase has the same weights in every chart that contains it."""
    model, n = model_of(), 5
    ids = KNOWN.encode_words(SENTENCES[0].split())
    [(weights, offsets)] = split_weights(backend, model_on(backend, model), [ids], max_height=max_height)
    assert [int(x) for x in offsets] == [0, n]
    tokens = reference.encode(model.parameters, np.array([*ids, END_ID]), 2)
    chart_parameters = {
        name.removeprefix("chart."): x for name, x in model.parameters.items() if name.startswith("chart.")
    }
    chart = cky_pooling.cky_pool(tokens[:n], chart_parameters, max_height)
    weights = host(weights)
    np.testing.assert_allclose(weights, np.concatenate(list(chart.weights.values())), rtol=1e-9)
    if max_height is None:
        assert largest_weights(weights, n) == pytest.approx({span: w.max() for span, w in chart.weights.items()})


def test_processes_change_nothing() -> None:
    """Trees have the order of the sentences, also if the last batch is smaller."""
    ops, model = accel.load("cpu"), model_of()
    sentences = [line.split() for line in [*SENTENCES, *SENTENCES[::-1], SENTENCES[0]]]
    alone = list(find_spans(ops, model, sentences))
    assert list(find_spans(ops, model, sentences, processes=2, batch_size=2)) == alone
    assert list(find_spans(ops, model, sentences, processes=2)) == alone


def test_constituents_of_whole_words() -> None:
    pieces = [[1], [2, 3], [4, 5], [6]]
    assert spans_of_words([(0, 5), (0, 2), (1, 2), (3, 5), (3, 4)], pieces) == [(0, 3), (0, 1), (2, 3)]
    assert spans_of_words([(0, 5), (0, 1), (2, 5), (2, 3), (4, 5)], pieces) == [(0, 3)]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return save_run(tmp_path / "run", model_of())


def test_command_prints_and_scores_trees(run: Path, run_grove: Grove) -> None:
    (run / "text").write_text("\n".join(SENTENCES) + "\n")
    status, out, _ = run_grove("parse", "--checkpoint", run, "--model", "treeformer", run / "text")
    trees = list(read_trees(out.splitlines()))
    model = model_of()
    pairs = [(KNOWN.encode_words(line.split()), line.split()) for line in SENTENCES]
    assert status == 0 and trees == [reference_tree(model, *pair) for pair in pairs]
    assert run_grove("parse", "--checkpoint", run, "--max-height", 7, run / "text")[:2] == (0, out)
    assert run_grove("parse", "--checkpoint", run, "--max-height", "none", "--batch-size", 1, run / "text")[:2] == (
        0,
        out,
    )
    (run / "gold").write_text(out)
    status, out, _ = run_grove("parse", "--checkpoint", run, "--gold", run / "gold", "--convention", "plain")
    row = next(line.split() for line in out.splitlines() if line.startswith("treeformer"))
    assert status == 0 and row == ["treeformer", "100.0", "100.0", "100.0"]
    picture = ("--gold", run / "gold", "--convention", "plain", "--picture", run / "x.svg")
    assert run_grove("parse", "--checkpoint", run, *picture)[0] == 0
    texts = [x.text for x in ElementTree.parse(run / "x.svg").iter() if x.tag.endswith("text")]
    assert texts.count("treeformer, F1 100.0") == 1 and texts.count("dog") == 2


def test_command_parses_with_classifiers_and_pieces(tmp_path: Path, run_grove: Grove) -> None:
    (tmp_path / "text").write_text("\n".join(SENTENCES) + "\n")
    classifier = model_of(replace(CONFIG, n_classes=2, chart="released"), WORDS)
    save_run(tmp_path / "classifier", classifier)
    status, out, _ = run_grove("parse", "--checkpoint", tmp_path / "classifier", tmp_path / "text")
    assert status == 0 and [" ".join(words(tree)) for tree in read_trees(out.splitlines())] == SENTENCES
    pieces = build_of_words([["straw", "berries", "strawberries"]] * 9, "sentencepiece", 270)
    model = model_of(vocabulary=pieces)
    save_run(tmp_path / "pieces", model)
    (tmp_path / "text").write_text("strawberries straw berriesberriesberries\nxyz\n")
    status, out, _ = run_grove("parse", "--checkpoint", tmp_path / "pieces", tmp_path / "text")
    first, second = read_trees(out.splitlines())
    assert status == 0 and words(first) == "strawberries straw berriesberriesberries".split()
    assert first.label == "X" and len(spans(first)) <= 2 and second == Tree("X", ("xyz",))
    picture = tmp_path / "picture.svg"
    assert run_grove("draw", "parse", "straw", "xyz", "--checkpoint", tmp_path / "pieces", "--out", picture)[0] == 0
    texts = [element.text for element in ElementTree.parse(picture).iter() if element.tag.endswith("text")]
    assert "xyz" not in texts and pieces.symbols[pieces.encode_words(["xyz"])[1]] in texts


def test_command_draws(run: Path, run_grove: Grove) -> None:
    out = run / "picture.svg"
    status, output, _ = run_grove("draw", "parse", SENTENCES[0], "--checkpoint", run, "--out", out)
    texts = [element.text or "" for element in ElementTree.parse(out).iter() if element.tag.endswith("text")]
    assert status == 0 and output == f"{out}\n" and set(SENTENCES[0].split()) <= set(texts)
    weights = [float(text) for text in texts if "." in text]
    assert len(weights) == 4 and all(0 < weight <= 1 for weight in weights)
    arguments = ("draw", "chart", *SENTENCES[2].split(), "--checkpoint", run, "--target", "the dog", "--out", out)
    assert run_grove(*arguments)[0] == 0
    texts = [element.text or "" for element in ElementTree.parse(out).iter() if element.tag.endswith("text")]
    assert {"her", "cat", "</s>", "words", "3 words", "Output: the dog"} <= set(texts)


def test_own_output_is_drawn(run: Path, run_grove: Grove) -> None:
    """The model's output is drawn if it has an end; else the user has to give a target."""
    out = run / "picture.svg"
    arguments = ("draw", "chart", "her cat", "--checkpoint", run, "--out", out)
    model = model_of()
    model.parameters["output_bias"][:] = -30.0 * (np.arange(len(KNOWN)) != END_ID)
    save_run(run, model)
    assert run_grove(*arguments)[0] == 0 and ">Output:</text>" in out.read_text()
    model.parameters["output_bias"][:] = -30.0 * (np.arange(len(KNOWN)) == END_ID)
    save_run(run, model)
    status, _, err = run_grove(*arguments)
    assert status == 2 and "the model writes 103 tokens without an end: give the target with --target" in err


def test_mistakes(run: Path, run_grove: Grove) -> None:
    save_run(run.parent / "plain", model_of(replace(CONFIG, chart="none")))
    save_run(run.parent / "classifier", model_of(replace(CONFIG, n_classes=2), WORDS))
    (run / "text").write_text("the dog\nthe old dog sees her\n")
    (run / "bad").write_text("the dog\nthe zebra\n")
    (run / "empty").write_text(" \n\n")
    (run / "gold").write_text("(S the dog)\n(S the (NP old dog) sees)\n")
    parse, gold = ("parse", "--checkpoint", run), ("--gold", run / "gold", "--convention", "plain")
    draw = ("--out", run / "x.svg", "--checkpoint")
    for arguments, message in [
        ((*parse, run / "text", "--max-height", 4), "text:2: 5 tokens, but the chart ends at height 4: no root"),
        ((*parse, *gold, "--max-height", 3), "gold:2: 4 tokens, but the chart ends at height 3: no root"),
        ((*parse, run / "text", "--max-height", "tall"), "--max-height tall: a whole number is needed"),
        ((*parse, run / "text", "--max-height", 0), "--max-height 0: at least 1 is needed"),
        ((*parse, run / "bad"), "bad:2: the word 'zebra' is not in the closed vocabulary"),
        ((*parse, run / "empty"), "empty: no sentence in this file"),
        ((*parse, run / "text", "--layer", 2), "--layer: is for distances"),
        ((*parse, run / "text", "--split", "biased"), "--split: is for distances"),
        ((*parse, run / "text", "--mode", "parser"), "--mode: is for trees of GPST, and "),
        ((*parse, run / "text", "--no-sync"), "best.safetensors holds a treeformer: leave it out"),
        (
            (*parse, run / "text", "--model", "fasttrees"),
            "of kind treeformer, not fasttrees: leave --model out",
        ),
        (("parse", "--checkpoint", run.parent / "plain", run / "text"), "which gives no trees without labels"),
        (("surprisal", "--checkpoint", run, run / "text"), "best.safetensors: holds a treeformer, which gives no"),
        (("generate", "--checkpoint", run), "best.safetensors: holds a treeformer, which gives no texts"),
        (("embed", "--checkpoint", run, run / "text", "--out", run / "x"), "treeformer, which gives no trees of GPST"),
        (("draw", "chart", "dog", "--out", run / "x.svg"), "chart: give the model with --checkpoint"),
        (("draw", "parse", "the old dog", *draw, run, "--max-height", 2), "3 tokens, but the chart ends at height 2"),
        (("draw", "parse", " ", *draw, run), "parse: the input is empty: give the words of a sentence"),
        (("draw", "chart", "dog", *draw, run, "--target", "zebra"), "the word 'zebra' is not in"),
        (("draw", "chart", "dog", *draw, run.parent / "plain"), "holds an encoder_decoder, which gives no full charts"),
        (("draw", "chart", "dog", *draw, run.parent / "classifier"), "classifier, which gives no translations"),
    ]:
        status, _, err = run_grove(*arguments)
        assert status == 2 and message in err, (arguments, err)
    assert not (run / "x.svg").exists()

"""`grove parse` and `grove embed` with GPST: trees, their picture and their vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from safetensors.numpy import load_file

import accel
from accel.parsing.distances import induced_tree
from accel.parsing.gpst import spans_of
from accel.trained.opening import open_model
from refimpl.gpst.inside_outside import induced_tree as induced_splits
from refimpl.gpst.inside_outside import inside, post_order
from refimpl.gpst.parser import split_scores
from refimpl.gpst.pruned_chart import merge_order, pruned_chart
from refimpl.layers import linear
from tests.fixtures.enumerated_trees import atoms
from tests.fixtures.gpst_runs import closed, exact, pieces, reference_config, text

__all__ = ["closed", "pieces", "text"]


@pytest.mark.parametrize("kind", ["pieces", "closed"])
def test_ways_to_parse(text: Path, kind: str, request: pytest.FixtureRequest, grove: Callable[..., str]) -> None:
    run, file = request.getfixturevalue(kind), text.parent / "read"
    lines = [line.split()[:7] for line in text.read_text().splitlines()[:5]]
    file.write_text("".join(f"{' '.join(line)}\n" for line in lines))
    model = open_model(accel.load("cpu"), run)
    encoded = [[model.vocabulary.encode_words([word]) for word in line] for line in lines]
    outputs = set()
    for options, keywords in (
        ((), {}),
        (("--mode", "inside", "--batch-size", 2), {}),
        (("--mode", "parser"), {"mode": "parser"}),
        (("--mode", "left-to-right"), {"mode": "left-to-right", "beam": 20}),
        (("--mode", "left-to-right", "--beam", 2, "--no-sync"), {"mode": "left-to-right", "beam": 2, "sync": False}),
    ):
        output = grove("parse", "--checkpoint", run, file, *options)
        predicted = list(spans_of(accel.load("cpu"), model, encoded, **keywords))
        assert output == "".join(f"{induced_tree(*pair)}\n" for pair in zip(predicted, lines, strict=True))
        outputs.add(output)
    assert len(outputs) > 2
    (text.parent / "gold").write_text(output)
    gold = ("--gold", text.parent / "gold", "--convention", "plain")
    table = grove("parse", "--checkpoint", run, *gold, *options).splitlines()
    assert next(line.split() for line in table if line.startswith("left-to-right"))[1:3] == ["100.0", "100.0"]


def test_ways_to_parse_that_are_none(text: Path, closed: Path, mistake: Callable[..., str]) -> None:
    file, some = text.parent / "wrong", text.read_text().split()[0]
    file.write_text(f"{some}\n{(some + ' ') * 91}\n")
    parse = ("parse", "--checkpoint", closed, file)
    beam = f"{{}}: is for the mode left-to-right, not for the mode {{}} of {closed}/checkpoint.safetensors: "
    beam += "leave it out, or set the mode"
    assert mistake(*parse, "--beam", 3) == beam.format("--beam", "inside")
    assert mistake(*parse, "--mode", "parser", "--no-sync") == beam.format("--no-sync", "parser")
    wrong = f"--max-height: is for full charts, and {closed}/checkpoint.safetensors holds a gpst: leave it out"
    assert mistake(*parse, "--max-height", 3) == wrong
    assert mistake(*parse, "--batch-size", 0) == "--batch-size 0: at least 1 is needed"
    wrong = mistake(*parse, "--mode", "left-to-right")
    assert wrong == f"{file}:2: a sentence of 91 tokens, more than a context of the model has, 90"
    file.write_text(f"{some}\n")
    assert mistake(*parse, "--mode", "left-to-right", "--beam", 0) == "--beam 0: at least 1 is needed"
    file.write_text("\n \n")
    assert mistake(*parse) == f"{file}: no sentence in this file: give text, a sentence a line"


def test_parses_are_drawn_beside_gold(
    text: Path, pieces: Path, tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    """The picture has the trees of all ways to parse, one below the other, below the gold tree."""
    gold, out = tmp_path / "gold", tmp_path / "parses.svg"
    some = [" ".join(line.split()[:5]) for line in text.read_text().splitlines()[:2]]
    gold.write_text(f"(S (NP {some[0]}))\n(S (NP (NN {some[1].replace(' ', ') ', 1)}))\n")
    parse = ("parse", "--checkpoint", pieces, "--gold", gold, "--convention", "plain", "--picture", out)
    assert "oracle" in grove(*parse, "--number", 2)
    texts = [x.text or "" for x in ElementTree.parse(out).iter() if x.tag.endswith("text")]
    names = ["gold, tree 2", "gold", "inside", "parser", "left-to-right", "without sync"]
    assert [re.sub(r", F1 \d+\.\d$", "", x) for x in texts if x.startswith(tuple(names))] == names
    for word in some[1].split():
        assert texts.count(word) == 5 * some[1].split().count(word)
    assert texts.count("NP") == texts.count("NN") == 1
    out.unlink()
    assert mistake(*parse, "--number", 3) == f"--number 3: {gold} has trees 1 to 2"
    before = ("parse", "--checkpoint", tmp_path / "none", *parse[3:-1])  # the picture is refused before a model is read
    assert mistake(*before, tmp_path / "a.gif") == f"{tmp_path}/a.gif: name the picture .svg or .png"
    assert mistake(*parse[:3], gold, "--picture", out) == "--picture: is for --gold: give gold trees with it"
    assert (
        mistake(*parse[:-2], "--number", 1) == "parse: --number is for --picture: give a name for the picture with it"
    )
    gold.write_text(f"(S {' '.join(91 * some[0].split()[:1])})\n")
    wrong = mistake(*parse)
    assert wrong.startswith(f"{gold}:1: a sentence of ") and wrong.endswith("a context of the model has, 90")
    assert not out.exists()


@pytest.mark.parametrize("kind", ["pieces", "closed"])
def test_embed(text: Path, kind: str, request: pytest.FixtureRequest, grove: Callable[..., str]) -> None:
    """The vectors are the reference's inside vectors of the nodes of its trees, which do not split words."""
    run, file, out = request.getfixturevalue(kind), text.parent / "read", text.parent / "vectors"
    lines = [line.split()[:7] for line in text.read_text().splitlines()[:5]]
    file.write_text("\n".join(" ".join(line) for line in [lines[0][:1], [], *lines[1:]]))
    assert grove("embed", "--checkpoint", run, file, "--out", out, "--batch-size", 2) == f"{out}\n"
    arrays = load_file(out)
    assert {name: (x.dtype, x.ndim) for name, x in arrays.items()} == {
        "vectors": (np.float32, 2), "spans": (np.int64, 2), "lines": (np.int64, 1),
    }  # fmt: skip
    model, _ = exact(run)
    p = {name: x.astype(np.float64) for name, x in model.parameters.items()}
    composition = {name.removeprefix("composition."): x for name, x in p.items()}
    for number, line in zip([1, 3, 4, 5, 6], [lines[0][:1], *lines[1:]], strict=True):
        pieces = [model.vocabulary.encode_words([word]) for word in line]
        ids, word = np.array(sum(pieces, [])), [k for k, of_word in enumerate(pieces) for _ in of_word]
        whole, ends = (
            atoms([*(i == 0 or word[i] > word[i - 1] for i in range(len(ids)))]),
            np.cumsum([0, *map(len, pieces)]),
        )
        order = merge_order(split_scores(reference_config(model), p, ids), whole)
        chart = pruned_chart(order, len(ids), model.config.window)
        leaves = linear(p["embedding"][ids], p["down"], p["down_bias"])
        inner = inside(leaves, chart, composition, model.config.compose_heads)
        nodes = [(i, j) for i, j in post_order(induced_splits(chart, inner.scores, whole)) if {i, j + 1} <= {*ends}]
        rows = arrays["lines"] == number
        assert [tuple(span) for span in arrays["spans"][rows].tolist()] == [(word[i], word[j]) for i, j in nodes]
        np.testing.assert_allclose(
            arrays["vectors"][rows], [inner.vectors[span] for span in nodes], rtol=2e-4, atol=2e-5
        )
    assert len(arrays["lines"]) == sum(2 * len(line) - 1 for line in [lines[0][:1], *lines[1:]])
    assert (np.diff(arrays["lines"]) >= 0).all()


def test_mistakes_of_embed(text: Path, closed: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    file, out, some = tmp_path / "wrong", tmp_path / "vectors", text.read_text().split()[0]
    embed = ("embed", "--checkpoint", closed, file, "--out", out)
    file.write_text(f"{some}\n\n{some} zebras\n")
    assert mistake(*embed).startswith(f"{file}:3: the word 'zebras' is not in the closed vocabulary of")
    file.write_bytes(f"{some}\n".encode() + b"\xff\n")
    assert mistake(*embed) == f"{file}:2:1: not UTF-8: 0xff: convert the file, as with iconv -f latin1 -t utf-8"
    file.write_text("\n \n")
    assert mistake(*embed) == f"{file}: no sentence in this file: give text, a sentence a line"
    file.write_text(f"{some}\n")
    assert mistake(*embed, "--batch-size", 0) == "--batch-size 0: at least 1 is needed"
    assert mistake(*embed[:-1], tmp_path / "none" / "vectors") == (
        f"--out {tmp_path}/none/vectors: no directory {tmp_path}/none: make it first"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["wrong"]

"""`grove surprisal` and `grove generate`: bits of words, and text, against the reference on the model of a run."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.vocabularies.vocabulary import END_ID
from accel.models.gpst import model as gpst
from accel.trained.opening import open_model
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_batches import batch_with
from tests.fixtures.gpst_runs import closed, exact, pieces, text, train
from tests.fixtures.gpst_search import bits_of, draw_text, without_start

__all__ = ["closed", "pieces", "text"]


@pytest.mark.parametrize("kind", ["pieces", "closed"])
def test_surprisal(text: Path, kind: str, request: pytest.FixtureRequest, grove: Callable[..., str]) -> None:
    """There is one line for each word; its bits are the sum of the bits of its pieces."""
    run, file = request.getfixturevalue(kind), text.parent / "read"
    lines = [line.split()[:3] for line in text.read_text().splitlines()[:5]]
    file.write_text("\n".join(" ".join(line) for line in [lines[0], [], *lines[1:]]))
    head, *rows = grove("surprisal", "--checkpoint", run, file, "--beam", 5, "--batch-size", 2).splitlines()
    assert head == "line\tword\tbits"
    model, steps = exact(run)
    for number, line in zip([1, 3, 4, 5, 6], lines, strict=True):
        encoded = [model.vocabulary.encode_words([word]) for word in line]
        bits = iter(bits_of(steps, 5, [i for ids in encoded for i in ids]))
        for word, ids in zip(line, encoded, strict=True):
            row = rows.pop(0).split("\t")
            assert row[:2] == [str(number), word]
            assert float(row[2]) == pytest.approx(sum(next(bits) for _ in ids), abs=2e-4)
    assert not rows


def test_surprisal_after_other_lines(text: Path, closed: Path, grove: Callable[..., str]) -> None:
    """The context of a line is the last lines of the same document, and no more lines than fit into the context."""
    file, (a, b, c, d) = text.parent / "read", [line.split()[:5] for line in text.read_text().splitlines()[:4]]
    model, steps = exact(closed)
    long = (a * 18)[:88]  # of the 90 tokens of a context
    file.write_text("\n".join(" ".join(line) for line in (a, b[:1], c, d, [], b, a, long, c[:2])))
    contexts = {1: [], 2: [a], 3: [a, b[:1]], 4: [b[:1], c], 6: [], 7: [b], 8: [], 9: [long]}
    command = ("surprisal", "--checkpoint", closed, file, "--beam", 2)
    rows = [line.split("\t") for line in grove(*command, "--context-lines", 2, "--batch-size", 3).splitlines()[1:]]
    lines = file.read_text().splitlines()
    for number, context in contexts.items():
        steps_after = partial(steps, context=[np.array(model.vocabulary.encode_words(line)) for line in context])
        words_of = lines[number - 1].split()[:5]
        bits = bits_of(steps_after, 2, model.vocabulary.encode_words(words_of))
        assert [float(row[2]) for row in rows if row[0] == str(number)][:5] == pytest.approx(bits, abs=2e-4)
    alone = grove(*command).splitlines()
    assert alone == grove(*command, "--context-lines", 0).splitlines() and len(alone) == len(rows) + 1
    same = [k for k, line in enumerate(alone[1:]) if line.split("\t") == rows[k]]
    assert {rows[k][0] for k in same} >= {"1", "6", "8"} and len(same) < len(rows)


def test_a_word_that_is_new_costs_its_pieces(text: Path, pieces: Path, grove: Callable[..., str]) -> None:
    (text.parent / "read").write_text("zebras zebras\n")
    rows = [line.split("\t") for line in grove("surprisal", "--checkpoint", pieces, text.parent / "read").splitlines()]
    assert [row[1] for row in rows[1:]] == ["zebras", "zebras"]
    model, _ = exact(pieces)
    few = len(model.vocabulary.encode_words(["zebras"])) * math.log2(320)
    assert all(0 < float(row[2]) < 2 * few for row in rows[1:])


def test_generate(text: Path, closed: Path, grove: Callable[..., str]) -> None:
    model, steps = exact(closed)
    prefix = text.read_text().split()[:3]
    for seed, top_k in ((0, 1), (1, 2), (2, 5)):
        options = ("--prefix", " ".join(prefix), "--words", 4, "--top-k", top_k, "--seed", seed)
        output = grove("generate", "--checkpoint", closed, *options)
        actions = draw_text(without_start(steps), top_k, 4, seed, model.vocabulary.encode_words(prefix), END_ID)
        assert output.split() == model.vocabulary.decode(i for i in actions if i >= 0 and i != END_ID)
    assert len(grove("generate", "--checkpoint", closed, "--words", 3, "--top-k", 4).split()) == 3


def test_generate_after_other_lines(text: Path, closed: Path, grove: Callable[..., str]) -> None:
    file, lines = text.parent / "before", text.read_text().splitlines()[:3]
    file.write_text(f"{lines[0]}\n\n{lines[1]}\n")
    model, steps = exact(closed)
    before = [np.array(model.vocabulary.encode_words(line.split())) for line in lines[:2]]
    for prefix in ([], lines[2].split()[:2]):
        options = ("--context", file, "--prefix", " ".join(prefix), "--words", 3, "--top-k", 3, "--seed", 1)
        ids = model.vocabulary.encode_words(prefix)
        actions = draw_text(without_start(partial(steps, context=before)), 3, 3, 1, ids, END_ID)
        expected = model.vocabulary.decode(i for i in actions if i >= 0 and i != END_ID)
        assert grove("generate", "--checkpoint", closed, *options).split() == expected


def test_generated_words_are_whole(pieces: Path, grove: Callable[..., str]) -> None:
    """Sampling continues until the next word begins, and draws the same pieces as the reference."""
    model, steps = exact(pieces)
    words = grove("generate", "--checkpoint", pieces, "--words", 1, "--top-k", 3, "--seed", 4).split()
    actions = draw_text(without_start(steps), 3, 8, 4)
    spelled = model.vocabulary.decode(i for i in actions if i >= 0)
    assert len(actions) > len(spelled) > 1 and words == spelled[:1]


def test_a_full_context_ends_the_text(pieces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Words of several pieces fill the context before all words are drawn; the words so far are printed."""
    assert cli.main(["generate", "--checkpoint", str(pieces), "--words", "90"]) == 0
    output, messages = capsys.readouterr()
    assert 1 <= len(output.split()) < 90 and messages == "grove: after 90 tokens the context is full\n"


def test_mistakes_are_named(text: Path, pieces: Path, closed: Path, mistake: Callable[..., str]) -> None:
    file, some = text.parent / "wrong", text.read_text().split()[0]
    file.write_text(f"{some}\n{some} zebras\n")
    wrong = mistake("surprisal", "--checkpoint", closed, file)
    assert wrong.startswith(f"{file}:2: the word 'zebras' is not in the closed vocabulary of")
    assert mistake("surprisal", "--checkpoint", closed, text, "--beam", 0) == "--beam 0: at least 1 is needed"
    assert (
        mistake("surprisal", "--checkpoint", closed, text, "--batch-size", 0) == "--batch-size 0: at least 1 is needed"
    )
    file.write_text(f"{some}\n\n{(some + ' ') * 91}\n")
    wrong = mistake("surprisal", "--checkpoint", closed, file)
    assert wrong == f"{file}:3: a sentence of 91 tokens, more than a context of the model has, 90"
    file.write_text("")
    assert mistake("surprisal", "--checkpoint", closed, file) == f"{file}: an empty file"
    command = ("generate", "--checkpoint", closed)
    wrong = mistake(*command, "--words", 91)
    assert wrong == "--words 91: after a prefix of 0 tokens at most 90 fit into a context of the model"
    assert mistake(*command, "--words", 3, "--top-k", 0) == "--top-k 0: at least 1 is needed"
    assert mistake(*command, "--words", 0) == "--words 0: at least 1 is needed"
    wrong = mistake(*command, "--words", 1, "--prefix", (some + " ") * 90)
    assert wrong == "--prefix: 90 tokens leave no room for a word: a context of the model has 90"
    assert mistake(*command, "--prefix", "zebras").startswith("--prefix: the word 'zebras' is not in")
    file.write_text(f"{(some + ' ') * 80}\n\n{some}\n")
    wrong = mistake(*command, "--words", 8, "--prefix", f"{some} {some}", "--context", file)
    place = "after a prefix of 2 tokens after 81 of the context"
    assert wrong == f"--words 8: {place} at most 7 fit into a context of the model"
    file.write_text(f"{some}\nzebras\n")
    assert mistake(*command, "--context", file).startswith(f"{file}:2: the word 'zebras' is not in")
    wrong = mistake("surprisal", "--checkpoint", closed, text, "--context-lines", -1)
    assert wrong == "--context-lines -1: at least 0 is needed"


def test_gpt2_has_words_but_no_trees(
    text: Path, tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    """The bits of a GPT-2 are those of the model, and text is drawn; commands that need trees are refused."""
    run, file = train(text, tmp_path / "run", "--vocabulary", "words", "--model", "gpt2"), tmp_path / "line"
    lines = [line.split() for line in text.read_text().splitlines()[:2]]
    file.write_text("".join(f"{' '.join(line)}\n" for line in lines))
    model = open_model(accel.load("cpu"), run)
    ids = [np.array(model.vocabulary.encode_words(line), np.int32) for line in lines]
    batch = batch_with(np.concatenate(ids), [len(line_ids) for line_ids in ids])
    expected = gpst.token_logps(CPU, model.config, model.parameters, batch)[0] / -math.log(2)
    rows = grove("surprisal", "--checkpoint", run, file, "--context-lines", 1).splitlines()[1:]
    assert [float(row.split("\t")[2]) for row in rows] == pytest.approx(expected.tolist(), abs=2e-4)
    words_of = grove("generate", "--checkpoint", run, "--prefix", lines[0][0], "--words", 3).split()
    assert len(words_of) <= 4 and words_of[0] == lines[0][0]
    assert "holds a gpt2, which gives no trees without labels" in mistake("parse", text, "--checkpoint", run)
    embed = ("embed", text, "--out", tmp_path / "out", "--checkpoint", run)
    assert mistake(*embed).endswith("holds a gpt2, which gives no trees of GPST; models that do: gpst")

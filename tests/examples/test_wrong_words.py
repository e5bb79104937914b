"""Which words a model of COGS gets wrong: a model that always predicts one word shows it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from accel.data.batches.sequence_pairs import TextPair, build_of_all_words
from accel.data.vocabularies.vocabulary import END_ID
from examples.treeformer import wrong_words
from tests.fixtures.treeformer_runs import model_of, save_run

LINES = ["a\tcat cat\tone", "a\tdog\tone", "a b\tcat dog\ttwo", "b\tfox\ttwo", "b\tcat\ttwo", "b\tcat cat\ttwo"]


def saved_run(folder: Path, word: str | None) -> Path:
    """Return a run whose model always predicts this word, or if it is None the end; it does not know the fox."""
    model = model_of(vocabulary=build_of_all_words([TextPair(("a", "b"), ("cat", "dog"), 1)]))
    for x in model.parameters.values():
        x[...] = 0
    model.parameters["output_bias"][END_ID if word is None else model.vocabulary.encode_words([word])[0]] = 1
    return save_run(folder, model)


def test_single_words_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "gen.tsv").write_text("\n".join(LINES) + "\n")
    end, cat = saved_run(tmp_path / "end", None), saved_run(tmp_path / "cat", "cat")
    wrong_words.main([str(end), str(cat), "--data", str(tmp_path)])
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [
        [str(end), "one", "2", "0.0", "100.0", "cat 50.0, dog 50.0"],
        [str(end), "two", "4", "0.0", "75.0", "cat 50.0, fox 25.0"],
        [str(cat), "one", "2", "0.0", "50.0", "the end 50.0"],
        [str(cat), "two", "4", "0.0", "50.0", "the end 50.0"],
    ]
    wrong_words.main([str(end), "--data", str(tmp_path), "--category", "two"])
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_no_wrong_word_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gen.tsv").write_text(LINES[0] + "\n")
    monkeypatch.setattr(wrong_words, "scores", lambda *arguments: (None, np.ones(3, bool)))
    wrong_words.main([str(saved_run(tmp_path / "run", "cat")), "--data", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[2].endswith("| one | 1 | 100.0 | 0.0 |  |")


def test_an_unknown_category_is_named(tmp_path: Path) -> None:
    (tmp_path / "gen.tsv").write_text("\n".join(LINES))
    with pytest.raises(ValueError, match="--category: three is not in .*gen.tsv; use one, two"):
        wrong_words.main(["run", "--data", str(tmp_path), "--category", "three"])

"""GPST on the shortest, deepest and strangest inputs gives right answers or named errors, and never NaN.

Other files test orders that are no permutation (tests/reference/test_gpst_chart.py), scores that are not finite (the
table of operations), and beams of 0 and contexts without room (tests/search/test_word_level_bad_input.py).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from accel import cli
from accel.autodiff.variables import constant
from accel.models.gpst import model as gpst
from accel.models.gpst import parser as split_parser
from accel.models.gpst.config import Config, initialise
from accel.search.pools import Limits
from accel.search.word_level import word_level_search
from accel.trained.opening import Model
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_batches import V, batch_of, config_of
from tests.fixtures.gpst_runs import pieces, text, train

__all__ = ["pieces", "text"]
MODES = ("inside", "parser", "left-to-right")
LONG: dict[str, Any] = {"n_positions": 1025, "d_compose": 2, "compose_heads": 1, "compose_layers": 1}
N = 1024


def long_model() -> tuple[Config, dict[str, np.ndarray]]:
    """Return a float32 model whose contexts have room for 1,024 words."""
    config = config_of(**LONG)
    return config, initialise(config, 0)


@pytest.mark.parametrize(("scores", "side"), [(np.arange(N - 1.0), 0), (-np.arange(N - 1.0), 1)], ids=["left", "right"])
def test_chains_of_1024_words(scores: np.ndarray, side: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a training step all losses and gradients are finite; the tree of the parser is the chain."""
    monkeypatch.setattr(split_parser, "split_scores", lambda *_: constant(scores.astype(np.float32)))
    (config, p), batch = long_model(), batch_of([N])
    loss, gradients, _ = gpst.loss_and_grad(CPU, config, p, batch)
    assert np.isfinite(loss) and all(np.isfinite(g).all() for g in gradients.values())
    losses = gpst.losses(CPU, config, p, batch)
    assert all(np.isfinite(x) for x in losses.values()) and 0 < losses["height"] < 1
    assert np.isfinite(gpst.token_logps(CPU, config, p, batch)[0]).all()
    ends, _, vectors = gpst.induced_trees(CPU, config_of(**LONG, window=1), p, batch.ids, batch.offsets)
    chain = [(0, j) if side == 0 else (N - 1 - j, N - 1) for j in range(1, N)]
    assert {(i, j) for i, j in ends.tolist() if i < j} == set(chain) and np.isfinite(vectors).all()


def test_a_search_through_a_full_context() -> None:
    model, limits = Model(Path("run"), *long_model(), None, None, gpst), Limits(2, one_pool=True)
    words = np.arange(N) % V
    ((parses, logps),) = word_level_search(CPU, model, [words[:200].tolist()], limits, contexts=[[words[:824]]])
    assert len(parses) == 2 and np.isfinite(logps).all() and (np.diff(logps) < 0).all()
    assert all(np.isfinite(h.logp) and len(h.actions) == 399 for h in parses)
    with pytest.raises(ValueError, match="sentence 0: 201 words, but a context has room for 1 to 200 after 824 words"):
        word_level_search(CPU, model, [words[:201].tolist()], limits, contexts=[[words[:824]]])


@pytest.fixture(scope="module")
def single_words(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a text of one-word sentences, and a run that is trained on it."""
    path = tmp_path_factory.mktemp("words") / "text"
    path.write_text("yes\nno\nmaybe\nyes\n\nno\nmaybe\nno\nyes\n" * 5)
    run = train(path, path.parent / "run", "--vocabulary", "words", "--validation", str(path), "--test", str(path))
    return path, run


def test_sentences_of_one_word_only(single_words: tuple[Path, Path], grove: Callable[..., str]) -> None:
    """They can be trained on, parsed and generated; the parser has nothing to learn."""
    path, run = single_words
    file = path.parent / "lines"
    file.write_text("yes\nno\n")
    for mode in MODES:
        assert grove("parse", "--checkpoint", run, file, "--mode", mode) == "(X yes)\n(X no)\n"
    for lines in (0, 9):
        rows = grove("surprisal", "--checkpoint", run, path, "--context-lines", lines, "--beam", 3).splitlines()[1:]
        bits = [float(row.split("\t")[2]) for row in rows]
        assert len(bits) == 40 and all(0 < x < 20 for x in bits)
    out = path.parent / "vectors"
    grove("embed", "--checkpoint", run, path, "--out", out)
    arrays = load_file(out)
    assert len(arrays["lines"]) == 40 and not arrays["spans"].any() and np.isfinite(arrays["vectors"]).all()
    assert len(grove("generate", "--checkpoint", run, "--prefix", "yes", "--words", 2).split()) <= 3
    assert "nan" not in (run / "metrics.jsonl").read_text().lower()
    assert cli.main(["evaluate", str(run)]) == 0 and 1 < float(grove("evaluate", run).split("perplexity")[1].split()[0])


def test_unknown_bytes(pieces: Path, tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]) -> None:
    """Pieces spell any text; for input that is not UTF-8 the error names the line."""
    file, out = tmp_path / "file", tmp_path / "vectors"
    lines = [["the", "\U0001f993", "sleeps"], ["\x01\ufffd"], ["Ωmega", "the", "\u200b"]]
    file.write_text("".join(f"{' '.join(line)}\n" for line in lines))
    for mode in MODES:
        output = grove("parse", "--checkpoint", pieces, file, "--mode", mode)
        assert [tree.replace("(X", "").replace(")", "").split() for tree in output.splitlines()] == lines
    rows = [row.split("\t") for row in grove("surprisal", "--checkpoint", pieces, file).splitlines()[1:]]
    assert [row[1] for row in rows] == sum(lines, []) and all(0 < float(row[2]) < 1000 for row in rows)
    grove("embed", "--checkpoint", pieces, file, "--out", out)
    assert np.isfinite(load_file(out)["vectors"]).all()
    file.write_bytes(b"the dog\nthe \xff\xfe dog\n")
    message = f"{file}:2:5: not UTF-8: 0xff: convert the file, as with iconv -f latin1 -t utf-8"
    for command in (
        *(("parse", file, "--mode", mode) for mode in MODES), ("surprisal", file), ("generate", "--context", file),
        ("embed", file, "--out", out),
    ):  # fmt: skip
        assert mistake(*command, "--checkpoint", pieces) == message

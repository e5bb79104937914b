"""The Python of accel/trained/README.md runs, and minicons can use its adapter as a scorer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accel.trained
from accel import trained
from accel.trained.interface import TrainedModel
from tests.fixtures.tiny_runs import SENTENCES, runs

__all__ = ["runs"]

README = (Path(accel.trained.__file__).parent / "README.md").read_text(encoding="utf-8")
FIRST, ADAPTER = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_first_lines(
    runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs["tg"].parent / "runs").symlink_to(runs["tg"].parent)
    monkeypatch.chdir(runs["tg"].parent)
    exec(compile(FIRST, "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1].startswith("(")


def test_every_method_is_described() -> None:
    methods = {name for name in dir(TrainedModel) if not name.startswith("_")}
    assert {name for name in methods if f"`{name}(" in README or f"`{name}`" in README or f".{name}`" in README} >= {
        name for name in methods if name not in ("ops", "model", "path")
    }


def evaluate(lm: Any, pairs: list[tuple[str, str]]) -> tuple[float, list[Any]]:
    """Return what a user of minicons asks a scorer for: accuracy on minimal pairs, and surprisals of words."""
    right = 0
    for good, bad in pairs:
        scores = lm.sequence_score([good, bad], reduction=lambda x: x.sum(0).item(), bos_token=True)
        right += scores[0] > scores[1]
    tokens = lm.token_score(pairs[0][0], bos_token=True, prob=False, surprisal=True, base_two=True)[0]
    word_scores = lm.word_score_tokenized(
        pairs[0][0], bos_token=True, tokenize_function=lambda s: s.split(), surprisal=True, base_two=True
    )
    return right / len(pairs), [tokens, word_scores[0]]


@pytest.mark.parametrize(("kind", "search"), [("tg", {"beam": 6}), ("gpst", {}), ("pieces", {}), ("lstm", {})])
def test_adapter(runs: dict[str, Path], kind: str, search: dict[str, int]) -> None:
    names: dict[str, Any] = {}
    exec(compile(ADAPTER, "README.md", "exec"), names)
    lm, model = names["GroveScorer"](runs[kind], **search), trained.open(runs[kind])
    accuracy, (tokens, words) = evaluate(lm, [SENTENCES, SENTENCES[::-1]])
    assert accuracy == 0.5 and [word for word, _ in words] == SENTENCES[0].split()
    bits = model.word_surprisals(SENTENCES[0], **search)[0]
    np.testing.assert_allclose([score for _, score in words], bits, rtol=1e-9)
    assert sum(score for _, score in tokens) == pytest.approx(bits.sum(), rel=1e-9)
    for option in ("bow_correction", "eos_token", "rank"):
        with pytest.raises(ValueError, match="Grove has none of them"):
            lm.token_score(SENTENCES[0], **{option: True})

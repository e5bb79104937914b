"""Options that a model does not take are refused in one line, which says what to do; none is ignored in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.tiny_runs import SENTENCES, TREES, runs

__all__ = ["runs"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in SENTENCES))
    return tmp_path / "text"


@pytest.mark.parametrize("command", ["score", "perplexity"])
def test_text_has_no_options_of_trees(
    command: str, runs: dict[str, Path], text: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    score = (command, "--checkpoint", runs["fasttrees"], "--text", text)
    assert grove(*score)
    for option in (("--keep-tags",), ("--no-drop-traces",), ("--ensemble", "product")):
        assert mistake(*score, *option) == f"{option[0]}: is for trees, and --text has none: leave it out"


def test_a_model_of_trees_or_of_words_is_told_its_own_option(
    runs: dict[str, Path], text: Path, mistake: Callable[..., str]
) -> None:
    trees = text.with_name("trees")
    trees.write_text("".join(f"{tree}\n" for tree in TREES))
    for command, instead in (("score", "leave --text out, and give a treebank"), ("perplexity", "use --trees or ")):
        wrong = mistake(command, "--checkpoint", runs["tg"], "--text", text)
        holds = f"--text: {runs['tg']}/best.safetensors holds a tg, which gives log-probabilities of trees: "
        assert wrong.startswith(holds + instead)
    for command in (("score", trees), ("perplexity", "--trees", trees)):
        wrong = mistake(*command, "--checkpoint", runs["lstm"])
        holds = f"{runs['lstm']}/best.safetensors: holds an lstm, which gives log-probabilities of text, not of trees"
        assert wrong == f"{holds}: use --text"
    wrong = mistake("rerank", "--proposals", trees, "--gold", trees, "--checkpoint", runs["lstm"])
    assert "which gives no log-probabilities of trees; models that do: tg, " in wrong


def test_words_without_actions_between_them_are_not_drawn_by_action(
    runs: dict[str, Path], grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    generate = ("generate", "--words", 2, "--no-sync", "--checkpoint")
    for kind in ("gpt2", "txl_terminals"):
        path = runs[kind] / "best.safetensors"
        wrong = f"--no-sync: is for actions between words, and {path} holds a {kind}: leave it out"
        assert mistake(*generate, runs[kind]) == wrong
    for kind in ("gpst", "tg"):
        assert grove(*generate, runs[kind])

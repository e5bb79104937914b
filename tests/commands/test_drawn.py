"""Trees drawn by `grove propose --sample` and by RNNG, and the bound and the estimate of perplexity from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.data.corpora.draws import stream_draws
from accel.data.corpora.gathered import Draw
from accel.data.corpora.treebank import Reading
from accel.data.files.lines import LineError
from accel.evaluation.importance import perplexity_estimate, sentence_estimate
from refimpl.transformer_grammars.marginal import perplexity, sentence_logp
from refimpl.trees import words
from tests.fixtures.toy_house import House, house

__all__ = ["house"]
Grove = Callable[..., str]
FILE = """0 ||| -0.5 ||| (S (NP it) rose)
0 ||| -1.5 ||| (S it rose)
0 ||| -0.5 |||  (S (NP it) rose)

2 ||| -2e-1 ||| (S it)
"""


def printed(text: str) -> dict[str, str]:
    return {line[:15].strip(): line[16:] for line in text.splitlines()}


def test_draws_are_read(tmp_path: Path) -> None:
    path = tmp_path / "draws"
    path.write_text(FILE)
    proposals, draws = map(list, zip(*stream_draws(path, Reading(), with_replacement=True), strict=True))
    assert [[str(x.tree) for x in group] for group in proposals] == [
        ["(S (NP it) rose)", "(S it rose)"],
        [],
        ["(S it)"],
    ]
    assert draws == [[Draw(0, -0.5), Draw(1, -1.5), Draw(0, -0.5)], [], [Draw(0, -0.2)]]
    with pytest.raises(LineError, match="draws:3: the same tree again: it was drawn with replacement"):
        list(stream_draws(path, Reading(), with_replacement=False))


def test_a_file_without_draws(tmp_path: Path) -> None:
    (tmp_path / "draws").write_text("\n\n")
    with pytest.raises(LineError, match="draws: no draws in this file: give lines of number"):
        list(stream_draws(tmp_path / "draws", Reading(), with_replacement=True))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("(S it)", ":2: not a sentence's number from 0"),
        ("1 ||| x ||| (S it)", ":2: not a sentence's number from 0"),
        ("1 ||| 0.5 ||| (S it)", ":2: not a sentence's number from 0"),
        ("1 ||| -inf ||| (S it)", ":2: not a sentence's number from 0"),
        ("-1 ||| -1 ||| (S it)", ":2: not a sentence's number from 0"),
        ("2 ||| -1 ||| (S it)", ":2: sentence 2 after sentence 3: sort the lines by sentence"),
        ("3 ||| -1 ||| (S it", ":2:14: unclosed bracket: (S"),
        ("3 ||| -1 ||| ", ":2: not one tree after the log-probability"),
        ("3 ||| -1 ||| (S it) (S it)", ":2"),
        ("3 ||| -1 ||| (S she)", ":2: other words than the sentence's first tree has, line 1"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "draws"
    path.write_text(f"3 ||| -1.0 ||| (S it)\n{line}\n")
    with pytest.raises(LineError) as error:
        list(stream_draws(path, Reading(), with_replacement=True))
    assert str(error.value).startswith(f"{path}{reason}")


def test_drawn_trees_bound_and_estimate(house: House, tmp_path: Path, grove: Grove, mistake: Grove) -> None:
    text, out = tmp_path / "text", tmp_path / "drawn"
    sentences = [words(tree) for tree in house.gold if len(words(tree)) <= 9][:3]
    text.write_text("".join(f"{' '.join(x)}\n" for x in sentences))
    command = ("propose", "--checkpoint", house.folder / "parser", text, "--number", 12, "--out")
    assert grove(*command, out, "--sample", "--seed", 3) == "sentences       3\nproposals       36 (12.0 a sentence)\n"
    proposals, draws = map(list, zip(*stream_draws(out, Reading(), with_replacement=False), strict=True))
    assert [words(group[0].tree) for group in proposals] == sentences and [len(x) for x in draws] == [12] * 3
    grove(*command, tmp_path / "again", "--sample", "--seed", 3, "--batch-size", 1)
    grove(*command, tmp_path / "other", "--sample")
    again, _ = map(list, zip(*stream_draws(tmp_path / "again", Reading(), with_replacement=False), strict=True))
    assert [[x.tree for x in group] for group in again] == [[x.tree for x in group] for group in proposals]
    assert (tmp_path / "other").read_bytes() != out.read_bytes()
    model = house.checkpoints("tg")
    figures = printed(grove("perplexity", *model, "--proposals", out, "--drawn", "without"))
    (tmp_path / "trees").write_text("".join(f"{x.tree}\n" for group in proposals for x in group))
    logps = [
        float(line.split()[0]) for line in grove("score", *model, tmp_path / "trees").splitlines() if line[0] == "-"
    ]
    groups = [logps[k : k + 12] for k in (0, 12, 24)]
    n_words = sum(map(len, sentences))
    assert float(figures["perplexity"].split()[0]) == pytest.approx(
        perplexity(list(map(sentence_logp, groups)), n_words), 1e-3
    )
    estimates = [
        sentence_estimate(group, [x.logp for x in samples], with_replacement=False)
        for group, samples in zip(groups, draws, strict=True)
    ]
    expected = perplexity_estimate(estimates, n_words)
    value, error = figures["estimate"].removesuffix(" (drawn without replacement)").split(" ± ")
    assert (float(value), float(error)) == pytest.approx(expected, rel=1e-3)
    assert float(value) <= float(figures["perplexity"].split()[0])
    command = ("perplexity", *model, "--proposals", out)
    assert mistake(*command, "--drawn", "with", "--numbered").startswith("--numbered: is not for --drawn")


def test_trees_are_summed_beside_drawn_ones(house: House, tmp_path: Path, grove: Grove, mistake: Grove) -> None:
    """IS-2: a proposal counts as a tree drawn with probability 1. Drawn trees that are also proposals are left out."""
    path, also = tmp_path / "drawn", tmp_path / "also"
    groups = [group for group in house.proposed if len(group) > 1]
    certain, samples = [group[:-1] for group in groups], [group[1:] for group in groups]
    path.write_text("".join(f"{n} ||| -0.5 ||| {tree}\n" for n, group in enumerate(samples) for tree in group))
    also.write_text("\n".join("".join(f"{tree}\n" for tree in group) for group in certain))
    command = ("perplexity", *house.checkpoints("tg"), "--proposals", path, "--drawn")
    figures = printed(grove(*command, "without", "--also", also))
    assert figures["mean proposals"] == f"{sum(map(len, groups)) / len(groups):.2f}"
    (tmp_path / "trees").write_text("".join(f"{tree}\n" for group in groups for tree in group))
    lines = grove("score", *house.checkpoints("tg"), tmp_path / "trees").splitlines()
    logps = iter(float(line.split()[0]) for line in lines if line[0] == "-")
    estimates = [
        sentence_estimate([next(logps) for _ in group], [0.0] * (len(group) - 1) + [-0.5], with_replacement=False)
        for group in groups
    ]
    expected = perplexity_estimate(estimates, sum(len(words(group[0])) for group in groups))
    value, error = figures["estimate"].removesuffix(" (drawn without replacement)").split(" ± ")
    assert (float(value), float(error)) == pytest.approx(expected, rel=1e-3)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("1 ")))
    without = printed(grove(*command, "without", "--also", also))
    assert without["skipped"] == "1: no proposals"  # certain trees alone give no estimate
    path.write_text("".join(lines))
    also.write_text("".join(f"{n}\t{tree}\n" for n, group in enumerate(certain, 1) for tree in group))
    assert printed(grove(*command, "without", "--also", also, "--numbered")) == figures
    also.write_text("".join(f"{tree}\n" for tree in certain[0]))
    n_first = len(samples[0]) + 1
    assert (
        mistake(*command, "without", "--also", also) == f"{path}:{n_first}: more sentences than the other trees have: 1"
    )
    also.write_text("\n".join(f"{group[0]}\n" for group in reversed(certain)))
    assert mistake(*command, "without", "--also", also).startswith(f"{path}:1: other words than the other trees")
    assert mistake(*command, "with", "--also", also).startswith("--also: is for --drawn without")


def test_all_trees_of_a_sentence_need_no_estimate(house: House, tmp_path: Path, grove: Grove) -> None:
    text, out = tmp_path / "text", tmp_path / "drawn"
    text.write_text("they\n")
    grove("propose", "--checkpoint", house.folder / "parser", text, "--number", 99, "--out", out, "--sample")
    assert {line.split(" ||| ")[1] for line in out.read_text().splitlines()} == {"0.0"}
    figures = printed(grove("perplexity", *house.checkpoints("tg"), "--proposals", out, "--drawn", "without"))
    bound = figures["perplexity"].split()[0]
    assert figures["estimate"] == f"{bound} ± 0.0000 (drawn without replacement)"


def test_samples_of_rnng_are_read_by_perplexity_and_rerank(house: House, tmp_path: Path, grove: Grove) -> None:
    path, q = tmp_path / "samples", math.log(0.25)
    lines = [f"{i} ||| {q} ||| {tree}\n" for i, group in enumerate(house.proposed) for tree in (*group, group[0])]
    path.write_text("".join(lines))
    for command in ("perplexity", "rerank"):
        common = (command, *house.checkpoints("tg"), "--gold", house.valid, "--proposals")
        plain, of_samples = printed(grove(*common, house.proposals)), printed(grove(*common, path, "--drawn", "with"))
        assert plain == {name: value for name, value in of_samples.items() if name != "estimate"}
    none = printed(grove("perplexity", *house.checkpoints("words"), "--proposals", path, "--drawn", "with"))
    assert none["estimate"] == "none (exact)"


def test_options_that_do_not_fit_are_refused(house: House, tmp_path: Path, mistake: Grove) -> None:
    command = ("propose", "--checkpoint", house.folder / "parser", house.valid, "--out", tmp_path / "out")
    assert mistake(*command, "--seed", 1) == "--seed: is for --sample: give both, or neither"
    assert mistake(*command, "--sample", "--numbered").startswith("--numbered: is not for --sample")
    wrong = mistake("perplexity", *house.checkpoints("tg"), "--trees", house.valid, "--drawn", "with")
    assert wrong == "--drawn: is for --proposals: leave it out"

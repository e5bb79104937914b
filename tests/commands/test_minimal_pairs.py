"""`grove minimal_pairs`: bits of the words of a run, tables, a file of pairs, and mistakes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import accel
from accel import cli
from accel.commands import minimal_pairs
from accel.scoring.surprisals import bits_of_words
from accel.trained.opening import open_model
from tests.fixtures.cpu_backend import CPU
from tests.fixtures.gpst_runs import closed, text
from tests.fixtures.minimal_pair_files import HEADER
from tests.fixtures.minimal_pair_files import line as blimp_line
from tests.fixtures.toy_house import SMALL, House, house, short_sentences

__all__ = ["closed", "house", "text"]


def sentences(text: Path) -> list[list[str]]:
    return [line.split()[:5] for line in text.read_text().splitlines() if len(line.split()) >= 5]


def write_pairs(path: Path, text: Path) -> list[tuple[list[str], list[str]]]:
    """Write pairs that differ in the third word, then a pair with an unknown word; return all but the last pair."""
    lines = sentences(text)
    pairs = [(words, [*words[:2], other[2], *words[3:]]) for words, other in zip(lines, lines[1:], strict=False)]
    pairs = [(good, bad) for good, bad in pairs if good != bad][:6]
    rows = [*pairs, (lines[0], [*lines[0][:2], "zebra", *lines[0][3:]])]
    table = "".join(f"t{k % 2}\tc\t{' '.join(good)}\t{' '.join(bad)}\t\n" for k, (good, bad) in enumerate(rows))
    path.write_text(HEADER + table)
    return pairs


@pytest.mark.parametrize("measure", ["sentence", "critical"])
def test_pairs_of_a_gpst(text: Path, closed: Path, measure: str, tmp_path: Path, grove: Callable[..., str]) -> None:
    """The bits of a sentence are those of all its words, or of the third word, which is critical."""
    pairs, out = write_pairs(tmp_path / "ml.tsv", text), tmp_path / "out.json"
    options = ("--data", tmp_path / "ml.tsv", "--format", "marvin_linzen", "--measure", measure, "--beam", 4)
    lines = grove("minimal_pairs", "--checkpoint", closed, *options, "--out", out).splitlines()
    content = json.loads(out.read_text())
    assert content["measure"] == measure and content["beam"] == 4 and content["seed"] == 0
    by_place = {pair["place"]: pair for paradigm in content["paradigms"].values() for pair in paradigm["pairs"]}
    ops = accel.load("cpu")
    right = {"t0": 0, "t1": 0}
    for number, pair in enumerate(pairs):
        bits = list(bits_of_words(ops, open_model(ops, closed), pair, beam=4))
        sums = [of_one[2] if measure == "critical" else sum(of_one) for of_one in bits]
        result = by_place[f"ml.tsv:{number + 2}"]
        assert result["bits"] == pytest.approx(sums, abs=2e-4) and result["right"] is (sums[0] < sums[1])
        right[f"t{number % 2}"] += result["right"]
    last = by_place[f"ml.tsv:{len(pairs) + 2}"]
    assert last["skipped"].startswith("the word 'zebra' is not in the closed vocabulary")
    rows = [line.split() for line in lines]
    assert rows[1][:6] == ["t0", str(right["t0"]), "3", "0", "1", f"{right['t0'] / 3:.4f}"]
    mean = (right["t0"] + right["t1"]) / 6
    assert content["means"]["mean over paradigms"]["accuracy"]["value"] == pytest.approx(mean)
    assert [line[:28].strip() for line in lines[4:8]] == [
        *("", "field subject-verb agreement", "mean over paradigms", "all pairs alike"),
    ]
    assert lines[-2].startswith("unknown words: 0 of ")
    assert lines[-1].startswith(f"skipped: 1 of 7 pairs, the first ml.tsv:{len(pairs) + 2}: the word 'zebra'")


def test_results_are_written_before_they_are_printed(
    text: Path, closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads the figures may end early, as `head` does."""
    write_pairs(tmp_path / "ml.tsv", text)

    def closed_pipe(*_: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(minimal_pairs, "_print", closed_pipe)
    command = ["minimal_pairs", "--checkpoint", str(closed), "--data", str(tmp_path / "ml.tsv"), "--format"]
    with suppress(BrokenPipeError):
        cli.main([*command, "marvin_linzen", "--beam", "2", "--out", str(tmp_path / "out.json")])
    assert json.loads((tmp_path / "out.json").read_text())["means"]


def test_pairs_of_models_of_trees(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    """A search reads up to the critical word. For proposals, the parser reads all words."""
    good = next(words for words in short_sentences(house, 20) if len(words) > 3)
    bad = [*good[:2], next(word for word in good if word != good[2]), *good[3:]]
    (tmp_path / "ml.tsv").write_text(HEADER + f"t\tc\t{' '.join(good)}\t{' '.join(bad)}\t\n")
    common = ("--data", tmp_path / "ml.tsv", "--format", "marvin_linzen", "--measure", "critical")
    proposals = ("--parser", house.folder / "parser", "--proposals-per-sentence", 4)
    for name, search in (("tg", SMALL), ("txl_cc", proposals), ("tg", proposals), ("words", ())):
        grove("minimal_pairs", "--checkpoint", house.folder / name, *common, *search, "--out", tmp_path / "out")
        if search == proposals:
            options = {"parser": open_model(CPU, house.folder / "parser"), "n_proposals": 4}
            bits = list(bits_of_words(CPU, house.model(name), [good, bad], **options))
        else:
            limits = {"beam": 8, "max_open": 4, "max_opens": 2} if name == "tg" else {}
            bits = list(bits_of_words(CPU, house.model(name), [good[:3], bad[:3]], **limits))
        content = json.loads((tmp_path / "out").read_text())
        result = content["paradigms"]["t"]["pairs"][0]
        assert result["bits"] == pytest.approx([bits[0][2], bits[1][2]], abs=2e-4)
        assert content.get("n_proposals") == (4 if search == proposals else None)


def test_words_are_changed_as_wanted(text: Path, closed: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    """Pairs with capitals or periods that the vocabulary lacks are skipped; --lower removes the capitals."""
    words = next(line for line in sentences(text) if " ".join(line).islower())
    good, bad = " ".join(words), " ".join([*words[:-1], words[0]])
    (tmp_path / "ml.tsv").write_text(HEADER + f"t\tc\t{good}\t{bad}\t\nt\tc\t{good.title()}\t{bad.title()}\t\n")
    command = ("minimal_pairs", "--checkpoint", closed, "--data", tmp_path / "ml.tsv", "--format", "marvin_linzen")
    for options, unknown_word in (((), "Title"), (("--lower",), ""), (("--capital",), words[0].capitalize())):
        output = grove(*command, *options)
        assert ("skipped:" in output) is bool(unknown_word)
    assert "the word '.' is not in the closed vocabulary" in grove(*command, "--lower", "--period")


def test_blimp_beside_published_results(text: Path, closed: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    """A published mean stands beside each paradigm, phenomenon and field, or a dash where no pair could be judged."""
    one, other = sentences(text)[:2]
    good, bad = " ".join(one), " ".join(other)
    lines = [blimp_line(good, bad, UID=name, linguistics_term=term) for name, term in zip("aab", "xxy", strict=True)]
    (tmp_path / "b.jsonl").write_text("".join(lines) + blimp_line("Zebra !", "Zebra ?", UID="c", linguistics_term="y"))
    published = [{"UID": name, "linguistics_term": term, "lm": k / 4} for k, (name, term) in enumerate(["ax", "by"])]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, published)))
    options = ("--data", tmp_path / "b.jsonl", "--format", "blimp", "--published", tmp_path / "p.jsonl", "--per", 1)
    rows = [line.split() for line in grove("minimal_pairs", "--checkpoint", closed, *options).splitlines()]
    assert rows[0][-1] == "lm" and [row[-1] for row in rows[1:4]] == ["0.0000", "0.2500", "-"]
    assert rows[1][2] == "1" and rows[3][1:6] == ["0", "0", "0", "1", "-"]
    assert rows[6][:3] == ["field", "morphology", "2"] and rows[6][-1] == "0.1250"
    assert [row[0] for row in rows[7:9]] == ["x", "y"] and rows[9][:4] == ["mean", "over", "paradigms", "2"]


def test_mistakes_are_named(
    text: Path, closed: Path, tmp_path: Path, mistake: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_pairs(tmp_path / "ml.tsv", text)
    command = ("minimal_pairs", "--checkpoint", closed, "--data", tmp_path / "ml.tsv", "--format", "marvin_linzen")
    assert mistake(*command, "--per", 0) == "--per 0: at least 1 is needed"
    assert mistake(*command, "--batch-size", 0) == "--batch-size 0: at least 1 is needed"
    assert mistake(*command, "--seed", 7) == "--seed: is for --per: give both, or neither"
    assert mistake(*command, "--split", "dev") == "--split: is for --format sva: leave it out"
    gold = ("--data", tmp_path / "x.gold", "--format", "sva", "--split", "train")
    leave = f"--split: is for a table, .tsv, not for {tmp_path / 'x.gold'}: leave it out"
    assert mistake(*command[:3], *gold) == leave
    assert mistake(*command, "--out", tmp_path) == f"--out {tmp_path}: a directory: name a file in it"
    assert mistake(*command, "--lower", "--capital") == "--capital: contradicts --lower: give one of them"
    assert mistake(*command[:-1], "sva").startswith(f"{tmp_path / 'ml.tsv'}:1: the header has no column 'label'")
    assert mistake(*command[:-1], "blimp").startswith(f"{tmp_path / 'ml.tsv'}: neither a .jsonl file, a folder nor")
    assert (
        mistake(*command, "--published", tmp_path / "ml.tsv") == f"{tmp_path / 'ml.tsv'}:1:1: not JSON: Expecting value"
    )
    assert (
        mistake(*command[:4], tmp_path / "none.tsv", *command[5:])
        == f"{tmp_path / 'none.tsv'}: No such file or directory: check the name"
    )
    assert mistake(*command, "--max-open", 3).startswith("--max-open: ") and mistake(*command, "--beam", 0).startswith(
        "--beam 0"
    )
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert mistake(*command) == "tests of significance need scipy: pip install 'grove-lm[analysis]'"

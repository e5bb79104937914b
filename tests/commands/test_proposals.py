"""`grove perplexity` and `grove rerank` on incomplete proposals and on documents."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from accel import cli
from accel.commands import rerank
from accel.evaluation.evalb import TooManyErrors, evalb
from accel.evaluation.evalb_input import COLLINS, with_tags
from accel.verify.compare import EPS32
from refimpl.trees import words
from tests.fixtures.toy_house import House, train, write


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"), ["tg", "words"])


@pytest.fixture(scope="module")
def reader_of_documents(house: House) -> Path:
    """The run of a model that was trained on documents of three sentences; they are in `documents.trees`."""
    data = house.folder / "documents.trees"
    data.write_text("".join(f"{tree}\n" + "\n" * (i % 3 == 2) for i, tree in enumerate(house.gold)))
    assert cli.main(train(house.folder / "documents", data, "--documents")) == 0
    return house.folder / "documents"


@pytest.fixture
def grove(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """Run a command that succeeds; return the lines that it prints."""

    def run(*arguments: object) -> list[str]:
        capsys.readouterr()
        status = cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert status == 0, err
        return out.splitlines()

    return run


@pytest.fixture
def mistake(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command that fails; return its one line."""

    def run(*arguments: object) -> str:
        capsys.readouterr()
        assert cli.main([str(argument) for argument in arguments]) == 2
        [line] = capsys.readouterr().err.splitlines()
        return line.removeprefix("grove: error: ").removeprefix("error: ")

    return run


def table(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


def with_gaps(house: House, left_out: set[int]) -> Path:
    """Write the numbered proposals of all sentences but those in `left_out`; return the file."""
    lines = house.numbered.read_text().splitlines(keepends=True)
    path = house.folder / "gaps.trees"
    path.write_text("".join(line for line in lines if int(line.split("\t")[0]) not in left_out))
    return path


def test_sentences_without_proposals_are_rows(house: House, tmp_path: Path, grove: Callable[..., list[str]]) -> None:
    common = (*house.checkpoints("tg"), "--numbered", "--proposals")
    grove("perplexity", *common, house.numbered, "--rows", tmp_path / "whole")
    path = with_gaps(house, {2, 12})
    text = grove("perplexity", *common, path, "--gold", house.valid, "--rows", tmp_path / "rows")
    lengths = [len(words(tree)) for tree in house.gold]
    n_words = sum(lengths) - lengths[1] - lengths[11]
    assert f"words           {n_words} of {sum(lengths)}" in text and "sentences       10 of 12" in text
    assert "skipped         2: no proposals" in text
    whole, rows = table(tmp_path / "whole"), table(tmp_path / "rows")
    assert rows[0] == ["sentence", "words", "proposals", "log p"] and len(rows) == 13
    for number in (2, 12):
        assert rows[number] == [str(number), str(lengths[number - 1]), "0", "skipped: no proposals"]
    numbers = [n for n in range(1, 13) if n not in (2, 12)]
    assert [rows[n][:3] for n in numbers] == [whole[n][:3] for n in numbers]
    # float32 in another batch: at most 256 roundings on the way through these layers, eps32 / 2 each
    assert [float(rows[n][3]) for n in numbers] == pytest.approx([float(whole[n][3]) for n in numbers], rel=128 * EPS32)
    expected = math.exp(-sum(float(rows[n][3]) for n in numbers) / n_words)
    assert float(text[0].split()[1]) == pytest.approx(expected, rel=1e-4)

    unknown = grove("perplexity", *common, path, "--sentences", 12, "--rows", tmp_path / "rows")
    assert f"words           {n_words} of an unknown number" in unknown and unknown[0] == text[0]
    assert table(tmp_path / "rows")[12] == ["12", "?", "0", "skipped: no proposals"]
    assert "sentences       10 of 11" in grove("perplexity", *common, path)  # the file does not show the twelfth


def test_long_sentences_are_skipped(house: House, tmp_path: Path, grove: Callable[..., list[str]]) -> None:
    lengths = [len(words(tree)) for tree in house.gold]
    most = sorted(lengths)[8]
    longer = [n for n in lengths if n > most]
    for names in (["tg"], ["words"]):
        common = (*house.checkpoints(*names), "--proposals", house.proposals, "--max-words", most)
        text = grove("perplexity", *common, "--rows", tmp_path / "rows")
        assert f"words           {sum(lengths) - sum(longer)} of {sum(lengths)}" in text
        assert f"skipped         {len(longer)}: too many words" in text
        reasons = [row[3] for row in table(tmp_path / "rows")[1:] if not row[3].startswith("-")]
        assert reasons == [f"skipped: {n} words, more than {most}" for n in longer]


def test_rerank_writes_its_rows_if_evalb_cannot_compare_the_trees(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    def too_many(*_: object) -> None:
        raise TooManyErrors("sentence 12: Length unmatch (7|8): error 12, MAX_ERROR 10")

    monkeypatch.setattr(rerank, "bracket_score", too_many)
    files = ("--gold", house.valid, "--proposals", house.proposals, "--rows", tmp_path / "rows")
    wrong = mistake("rerank", *house.checkpoints("tg"), *files)
    assert wrong.startswith(
        f"{house.valid}: sentence 12: Length unmatch (7|8): error 12, MAX_ERROR 10; a parameter file"
    )
    assert [len(row) for row in table(tmp_path / "rows")] == [7] + 12 * [4]


def test_rerank_skips_sentences_without_proposals(
    house: House, tmp_path: Path, grove: Callable[..., list[str]]
) -> None:
    common = ("rerank", *house.checkpoints("tg"), "--numbered", "--gold", house.valid, "--out", tmp_path / "chosen")
    text = grove(*common, "--proposals", with_gaps(house, {3}), "--rows", tmp_path / "rows")
    assert "sentences       11 scored, 0 with errors, 1 skipped" in text and "skipped         1: no proposals" in text
    rows = table(tmp_path / "rows")
    assert rows[0] == ["sentence", "words", "proposals", "log p", "matched", "gold", "chosen"] and len(rows) == 13
    assert rows[3] == ["3", str(len(words(house.gold[2]))), "0", "skipped: no proposals"]
    trees = (tmp_path / "chosen").read_text().splitlines()
    assert len(trees) == 12 and not trees[2]
    gold = [with_tags(tree, ["WORD"] * len(words(tree))) for tree in house.gold]
    [best] = [tree for tree in house.proposed[0] if str(tree) == trees[0]]
    [score] = evalb(gold[:1], [with_tags(best, ["WORD"] * len(words(best)))], COLLINS).per_sentence
    assert rows[1][4:] == [str(score.matched), str(score.gold), str(score.predicted)]
    counts = [[int(x) for x in row[4:]] for row in rows[1:] if len(row) == 7]
    n_matched, n_gold, n_chosen = (sum(column) for column in zip(*counts, strict=True))
    assert float(text[0].split()[1]) == pytest.approx(200 * n_matched / (n_gold + n_chosen), abs=0.006)


def test_documents_by_their_sizes_or_their_trees(
    house: House, reader_of_documents: Path, tmp_path: Path, grove: Callable[..., list[str]]
) -> None:
    model = ("--checkpoint", reader_of_documents)
    common = ("perplexity", *model, "--proposals", house.proposals)
    (tmp_path / "sizes").write_text("3\n" * 4)
    text = grove(*common, "--documents", tmp_path / "sizes")
    assert text[0].endswith("(after greedy trees)")
    documents = house.folder / "documents.trees"
    assert grove(*common, "--gold", documents) == text
    assert grove("rerank", *model, "--proposals", house.proposals, "--gold", documents)[4].startswith(
        "sentences       12"
    )
    single = grove("perplexity", *model, "--proposals", documents_apart(house, tmp_path), "--gold", documents)
    whole = grove("perplexity", *model, "--trees", documents)
    assert float(single[1].split()[2]) == pytest.approx(float(whole[1].split()[2]), abs=1e-3)
    path = with_gaps(house, {5})
    text = grove(
        "perplexity", *model, "--numbered", "--proposals", path, "--gold", documents, "--rows", tmp_path / "rows"
    )
    assert "skipped         1: no proposals" in text and "sentences       10 of 12" in text
    assert "skipped         1: after a skipped sentence of its document" in text
    assert table(tmp_path / "rows")[6][3] == "skipped: after a skipped sentence of its document"


def documents_apart(house: House, folder: Path) -> Path:
    """Write a file of proposals in which each gold tree is the only proposal of its sentence."""
    path = folder / "single.trees"
    path.write_text("\n".join(f"{tree}\n" for tree in house.gold))
    return path


def test_trees_without_tags_keep_their_place(
    house: House, tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: Callable[..., str]
) -> None:
    """Trees without tags are left out and counted; among proposals they are refused."""
    path, tree = tmp_path / "trees", house.gold[0]
    tagged = with_tags(tree, ["X"] * len(words(tree)))
    path.write_text(f"{tagged}\n{house.gold[1]}\n{tagged}\n")
    model, reading = house.checkpoints("tg"), ("--no-keep-tags", "--leave-out-untagged")
    assert cli.main(["score", *map(str, (*model, path, *reading))]) == 1
    out, err = capsys.readouterr()
    first, middle, last = out.splitlines()
    assert middle == "-" and first == last != "-" and err.endswith("grove: 1 of 3 trees not scored\n")
    (tmp_path / "line").write_text(f"{house.gold[1]} {tagged} {house.gold[1]}\n")  # several trees on one line
    assert cli.main(["score", *map(str, (*model, tmp_path / "line", *reading))]) == 1
    assert capsys.readouterr().out.splitlines() == ["-", first, "-"]
    assert cli.main(["perplexity", *map(str, (*model, "--trees", path, *reading))]) == 0
    out, err = capsys.readouterr()
    assert f"grove: {path}: 1 trees without tags left out" in err and "sentences       2" in out
    path.write_text(f"{house.gold[1]}\n")
    text = f"{path}: no tree is left: each has a word without a part-of-speech tag; use --keep-tags"
    assert mistake("perplexity", *model, "--trees", path, *reading) == text
    path.write_text(f"{tagged}\n{house.gold[1]}\n")
    wrong = mistake("perplexity", *model, "--proposals", path, *reading)
    assert wrong.startswith(f"{path}:2: not every word has a part-of-speech tag to drop")


def test_mistakes_in_proposals_are_named(
    house: House, reader_of_documents: Path, tmp_path: Path, mistake: Callable[..., str]
) -> None:
    path = tmp_path / "bad.trees"
    options = (*house.checkpoints("tg"), "--numbered", "--proposals", path)
    for text, reason in (
        ("x\t(S they)\n", ":1: 'x' is not a number above 0: the numbers of the sentences must rise"),
        ("0\t(S they)\n", ":1: '0' is not a number above 0: the numbers of the sentences must rise"),
        ("2\t(S they)\n1\t(S he)\n", ":2: '1' is not a number above 2: the numbers of the sentences must rise"),
        (
            "1\t(S they)\n1\t(S he)\n",
            ":2: other words than the sentence's first proposal has, {path}:1: give every sentence its number",
        ),
        ("(S they)\n", ":1:1: no name of a document, or number of a sentence, and tab before the tree: write one"),
    ):
        path.write_text(text)
        assert mistake("perplexity", *options) == f"{path}{reason}".replace("{path}", str(path))
    path.write_text("2\t(S they)\n")
    gold = write(tmp_path / "gold.trees", house.gold[:1])
    assert (
        mistake("perplexity", *options, "--gold", gold) == f"{gold}: 1 trees, but {path} has 2 sentences: give as many"
    )
    gold = write(tmp_path / "gold.trees", house.gold[:2])
    wrong = mistake("perplexity", *options, "--gold", gold, "--sentences", 3)
    assert wrong == f"{gold}: 2 trees for 3 sentences: give one tree for each"
    assert (
        mistake("perplexity", *options, "--sentences", 1) == f"--sentences: 1, but {path} has 2 sentences: give as many"
    )
    assert mistake("perplexity", *options, "--sentences", 0) == "--sentences 0: at least 1 is needed"
    reason = f"{path}:1: other words than the gold tree has, {house.valid}:2: give both in one order"
    for command in ("perplexity", "rerank"):
        assert mistake(command, *options, "--gold", house.valid) == reason
    assert mistake("perplexity", *options, "--max-words", 0) == "--max-words 0: at least 1 is needed"
    path.write_text("2\t(S they sing)\n")
    everything = mistake("perplexity", *options, "--max-words", 1)
    assert everything == f"{path}: every one of 2 sentences is skipped: no proposals"
    trees = ("perplexity", *house.checkpoints("tg"), "--trees", house.valid)
    assert mistake(*trees, "--gold", house.valid) == "--gold: is for --proposals: leave it out"
    assert mistake(*trees, "--max-words", 9) == "--max-words: is for --proposals: leave it out"
    (tmp_path / "sizes").write_text("7\n0\n")
    documents = ("perplexity", "--checkpoint", reader_of_documents, "--proposals", house.proposals)
    message = mistake(*documents, "--documents", tmp_path / "sizes")
    assert message == f"{tmp_path}/sizes:2: '0' is not a number of sentences of a document"
    (tmp_path / "sizes").write_text("7\n")
    message = mistake(*documents, "--documents", tmp_path / "sizes")
    assert message == f"{tmp_path}/sizes: 7 sentences, but {house.proposals} has 12 sentences: give as many"
    reason = "the model reads documents: give them with --documents or --gold"
    assert mistake(*documents) == f"{house.proposals}: {reason}"
    (tmp_path / "sizes").write_text("")
    assert mistake(*documents, "--documents", tmp_path / "sizes") == f"{tmp_path}/sizes: an empty file"
    sentences = ("perplexity", *house.checkpoints("tg"), "--proposals", house.proposals)
    message = mistake(*sentences, "--documents", tmp_path / "sizes")
    assert message == f"{tmp_path}/sizes: the model was trained on sentences, not on documents"

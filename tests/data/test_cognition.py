"""CoGnition: compounds, the rule that tells whether one is translated, and the error rates of a trained model."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from accel.data.files.lines import LineError, find_file, read_lines
from accel.data.published.cognition import (
    Instance,
    error_rates,
    is_translated,
    read_instances,
    read_lexicon,
    roles,
    tokens,
)
from tests.fixtures.command_line import Grove
from tests.fixtures.parallel_text import SMALL

LEXICON = {
    "the": (), "every": ("每", "所有"), "red": ("红",), "dog": ("狗", "犬"), "saw": ("看到", "见"), "on": (),
    "under": ("下",), "liked": ("喜欢", ""), "mod0": ("他喜欢的",),
}  # fmt: skip
ARCHIVE = ("cognition", "cognition_valid_test_cgtest.tar.xz")


def test_chinese_is_read_by_characters() -> None:
    assert tokens("他花 了 20 分钟 ， 3美元。\r") == ["他", "花", "了", "20", "分", "钟", "，", "3", "美", "元", "。"]
    assert tokens(" it 's late .") == ["it", "'s", "late", "."]


@pytest.mark.parametrize(
    ("compound", "names"),
    [
        ("the dog", "determiner noun"),
        ("every red dog", "determiner adjective noun"),
        ("saw the dog", "verb determiner noun"),
        ("liked the dog he liked", "verb determiner noun modifier"),
        ("under every red dog he liked", "preposition determiner adjective noun modifier"),
    ],
)
def test_roles(compound: str, names: str) -> None:
    role_words = roles(compound)
    assert list(role_words) == names.split()
    assert " ".join(role_words.values()).replace("mod0", "he liked") == compound


@pytest.mark.parametrize(
    "compound", ["", "dog", "the", "saw dog", "saw saw the dog", "the big red dog", "the he liked"]
)
def test_phrases_that_are_no_compounds_are_named(compound: str) -> None:
    with pytest.raises(ValueError, match=f"'{compound}' is no compound such as"):
        roles(compound)


@pytest.mark.parametrize(
    ("compound", "translation", "expected"),
    [
        ("the red dog", "红狗", True),
        ("the red dog", "红狗红", True),  # the first red is before the last dog
        ("the red dog", "狗红", False),
        ("the red dog", "红", False),
        ("the red dog", "", False),
        ("every dog", "狗每", False),
        ("every dog", "所有的犬", True),
        ("every dog", "每狗所有", True),  # likewise with two translations of one word
        ("every dog", "狗每犬", True),
        ("every dog", "狗犬每", False),
        ("on the dog", "狗", True),
        ("under the dog", "狗", False),
        ("the dog he liked", "他喜欢的狗", True),
        ("the dog he liked", "狗他喜欢的", False),
        ("saw the dog he liked", "看到狗他喜欢的", True),  # the modifier may belong to the verb
        ("saw every dog he liked", "看到狗他喜欢的每", False),
        ("liked the dog", "狗", True),  # the lexicon allows an empty translation
    ],
)
def test_translated_or_not(compound: str, translation: str, expected: bool) -> None:
    assert is_translated(roles(compound), translation, LEXICON) == expected


def test_rates_by_hand() -> None:
    """Of three compounds, one is right in all five sentences, one is wrong in one of them, and one is wrong in all."""
    instances = [Instance(("x",), roles(text)) for text in ("the dog", "saw the dog", "the red dog") for _ in range(5)]
    translations = [["狗"]] * 5 + [["看", "到", "狗"]] * 4 + [["狗"]] + [["狗"]] * 5
    assert error_rates(instances, translations, LEXICON) == {
        "instance": 6 / 15, "aggregate": 2 / 3, "instance NP": 1 / 2, "aggregate NP": 1 / 2, "instance VP": 1 / 5,
        "aggregate VP": 1.0,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Parallel text in which every English word has one Chinese translation; the tested compound is "the red dog"."""
    chinese = {"the": "", "red": "红", "small": "小", "dog": "狗", "bee": "蜜蜂", "saw": "看到", "ran": "跑"}
    nouns = [f"the {adjective}{noun}" for adjective in ("", "red ", "small ") for noun in ("dog", "bee")]
    lines = [f"{noun} {end}" for noun in nouns for end in ("ran", *(f"saw {other}" for other in nouns))]
    for stem in ("train", "valid", "cg-test/cg-test"):
        path = tmp_path / stem
        path.parent.mkdir(exist_ok=True)
        sources = [line for line in lines if line.startswith("the red dog")][:5] if "cg" in stem else lines
        path.with_name(f"{path.name}.en").write_text("".join(f"{line}\n" for line in sources))
        translations = ("".join(chinese[word] for word in line.split()) for line in sources)
        path.with_name(f"{path.name}.zh").write_text("".join(f"{line}\n" for line in translations))
    (tmp_path / "cg-test" / "cg-test.compound").write_text("the red dog\n" * 5)
    (tmp_path / "lexicon").write_text("".join(f"{word}\t{text or '/'}\n" for word, text in chinese.items()))
    return tmp_path


def test_trained_and_evaluated(folder: Path, run_grove: Grove) -> None:
    arguments = ("--task", "cognition", "--size", "tiny", "--data", folder, "--steps", 240, "--batch-size", 300)
    status, out, err = run_grove("train", *arguments, "--out", folder / "run", *SMALL, "--set=keep_checkpoints=2")
    assert status == 0, err
    figures = json.loads((folder / "run" / "evaluation.json").read_text())
    names = {f"error rate {name}" for name in ("instance", "aggregate", "instance NP", "aggregate NP")}
    assert figures.keys() == names and figures["error rate instance"].keys() == {"best", "average of 2"}
    assert figures["error rate aggregate"]["best"] == 0.0
    shutil.copytree(folder, folder / "copy", ignore=shutil.ignore_patterns("run"))
    archive = shutil.make_archive(str(folder / "packed"), "xztar", folder / "copy")
    assert run_grove("evaluate", folder / "run", "--data", archive)[:2] == (0, out[: out.index(str(folder))])
    archive = shutil.make_archive(str(folder / "packed"), "xztar", folder / "copy" / "cg-test")
    assert "no such file in this archive" in run_grove("evaluate", folder / "run", "--data", archive)[2]
    (folder / "text").write_text("the small bee ran\n")
    assert run_grove("translate", "--checkpoint", folder / "run", folder / "text")[:2] == (0, "小 蜜 蜂 跑\n")


def test_the_test_is_read_before_the_training(folder: Path, run_grove: Grove) -> None:
    (folder / "lexicon").write_text("the\t/\nred\tx\n")
    status, _, err = run_grove("train", "--task", "cognition", "--data", folder, "--out", folder / "run", *SMALL)
    assert status == 2 and err.endswith("cg-test.compound:1: the lexicon has no 'dog'\n") and err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cg-test.compound", "the red dog\n" * 4, "cg-test.en:5: {}/cg-test.compound ends before this line"),
        ("cg-test.compound", "the red dog\n" * 4 + "the bee\n", "compound:5: 'the bee' is not in its sentence"),
        ("cg-test.compound", "the red dog ran\n" * 5, "compound:1: 'the red dog ran' is no compound"),
        ("cg-test.compound", "the red dog\n\n", "compound:2: an empty sentence"),
        ("../lexicon", "the\t/\nred\n", "lexicon:2: 1 columns, not 2: a word and its translations"),
        ("../lexicon", "the\t/\nred\tx\n", "compound:1: the lexicon has no 'dog'"),
    ],
)
def test_bad_files_are_named(folder: Path, name: str, text: str, message: str) -> None:
    test = folder / "cg-test"
    if "no compound" in message:
        (test / "cg-test.en").write_text("the red dog ran\n" * 5)
    (test / name).write_text(text)
    with pytest.raises(LineError) as error:
        read_instances(test / "cg-test.en", test / "cg-test.compound", read_lexicon(folder / "lexicon"))
    assert message.format(test) in str(error.value)


def test_compounds_have_five_sentences(tmp_path: Path) -> None:
    (tmp_path / "en").write_text("the dog saw the red dog\n" * 7)
    paths, lexicon = (tmp_path / "en", tmp_path / "compound"), LEXICON
    (tmp_path / "compound").write_text("the dog\n" * 4 + "the red dog\n" * 3)
    with pytest.raises(LineError, match="compound:5: 'the red dog': the compound before has fewer than 5 sentences"):
        read_instances(*paths, lexicon)
    (tmp_path / "compound").write_text("the dog\n" * 5 + "the red dog\n" * 2)
    with pytest.raises(LineError, match="compound:7: the last compound has fewer than 5 sentences"):
        read_instances(*paths, lexicon)


def test_real_files(data_dir: Path) -> None:
    """By the rule, 2.6 % of the references and 9.8 % of the compounds have errors, as by the authors' script."""
    archive = data_dir.joinpath(*ARCHIVE)
    lexicon = read_lexicon(find_file(archive, "lexicon"))
    instances = read_instances(*(find_file(archive, f"cg-test.{end}") for end in ("en", "compound")), lexicon)
    assert Counter(instance.kind for instance in instances) == {"NP": 3600, "VP": 3600, "PP": 3600}
    references = [tokens(line) for _, line in read_lines(find_file(archive, "cg-test.zh"))]
    rates = error_rates(instances, references, lexicon)
    assert rates["instance"] == 283 / 10_800 and rates["aggregate"] == 212 / 2_160

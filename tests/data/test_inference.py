"""Pairs of sentences of natural language inference, in three layouts."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from accel.data.batches.sentences import Example
from accel.data.files.lines import LineError
from accel.data.published.inference import CLASSES, FIELDS, read_inference

SICK = "%label\tA\tB\tscore\nNEUTRAL\t( ( A girl ) dances )\t( She ( stands still ) )\t2.7\n"
PAIRS = [
    ("neutral", "( ( A girl ) dances )", "( She ( stands still ) )"),
    ("-", "Rain", "( It rains )"),
    ("contradiction", "Rain", "Sun"),
]


def expected(*lines: int) -> list[Example]:
    first = Example("neutral", (["A", "girl", "dances"], ["She", "stands", "still"]), lines[0])
    return [first, *(Example("contradiction", (["Rain"], ["Sun"]), n) for n in lines[1:])]


def write(folder: Path, text: str) -> Path:
    path = folder / "pairs.txt"
    path.write_text(text)
    return path


def test_columns_in_their_places(tmp_path: Path) -> None:
    assert read_inference(write(tmp_path, SICK)) == (expected(2), 0)
    assert read_inference(write(tmp_path, SICK.split("\n", 1)[1].replace("\n", "\r\n"))) == (expected(1), 0)


def test_columns_with_names(tmp_path: Path) -> None:
    rows = ["\t".join(["pair", *FIELDS[::-1]])] + ["\t".join(["x", *row[::-1]]) for row in PAIRS]
    assert read_inference(write(tmp_path, "\n".join(rows))) == (expected(2, 4), 1)


def test_objects(tmp_path: Path) -> None:
    rows = [json.dumps(dict(zip(FIELDS, row, strict=True)) | {"annotator_labels": ["neutral"]}) for row in PAIRS]
    assert read_inference(write(tmp_path, "\n".join(rows) + "\n")) == (expected(1, 3), 1)


OBJECT = json.dumps(dict(zip(FIELDS, PAIRS[0], strict=True))) + "\n"
NAMED = "\t".join(FIELDS) + "\n" + "\t".join(PAIRS[0]) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SICK + "NEUTRAL\t( a b )\n", ":3: 2 column(s), not label, parse and parse between tabs"),
        (SICK + "\n", ":3: 1 column(s), not label, parse and parse between tabs"),
        (SICK + "MAYBE\ta\tb\n", ":3: unknown label 'maybe': it must be one of entailment neutral contradiction, or -"),
        (SICK + "NEUTRAL\t( a b\tb\n", ":3: first sentence: unbalanced brackets"),
        (SICK + "NEUTRAL\ta\tb ) (\n", ":3: second sentence: unbalanced brackets"),
        (SICK + "NEUTRAL\ta\t( )\n", ":3: second sentence: no words"),
        (NAMED + "neutral\ta\n", ":3: 2 column(s), the header has 3"),
        (NAMED + "%\ta\tb\n", ":3: unknown label '%'"),
        (OBJECT + "{\n", ":2: not JSON: "),
        (OBJECT + OBJECT.replace("{", r'{"other": "\ud83d", ', 1), r":2: \ud83d is half of a character"),
        (OBJECT + "[]\n", ":2: no text for 'gold_label'"),
        (OBJECT + '{"gold_label": "neutral"}\n', ":2: no text for 'sentence1_binary_parse'"),
        ("%nothing else\n", ": no labelled pairs in this file"),
        ("-\ta\tb\n", ": no labelled pairs in this file"),
        ("", ": an empty file"),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(LineError) as error:
        read_inference(path)
    assert str(error.value).startswith(f"{path}{message}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("part", "counts"), [("train", (1299, 2536, 665)), ("dev", (144, 282, 74)), ("test", (1414, 2793, 720))]
)
def test_real_pairs(data_dir: Path, part: str, counts: tuple[int, ...]) -> None:
    pairs, n_unlabelled = read_inference(data_dir / "sick" / f"{part}.txt.xz")
    per_label = Counter(pair.label for pair in pairs)
    assert tuple(per_label[label] for label in CLASSES) == counts and not n_unlabelled

"""The learning curves of RESULTS.md: what is in a picture, and that all pictures are there."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

import pytest

from accel.drawing.svg import Line, Picture, Text, svg, text_width
from examples.curves import learning_curves, links, mean_of, without_beginning
from examples.queue_tables import read_runs
from examples.result_files import FOLDER, read_results

RESULTS, RUNS = read_results(FOLDER), read_runs(FOLDER / "queue")


def run(name: str, **curves: list[list[float]]) -> dict[str, Any]:
    return {"name": name, "validation_loss": [[1, 9.0], [2, 4.0], [3, 3.0]]} | curves


ACCURACY = [[step, 0.9 + step / 1000] for step in range(1, 51)]
TOY = [
    *(run(f"a/{name}") for name in ("tg-0", "tg-1", "txl_cc-0", "txl_terminals-0", "measured-0")),
    run("a/parser-lstm", validation_accuracy=ACCURACY), run("logic/on_lstm-0", validation_accuracy=ACCURACY),
    *(run(f"cogs/{name}-0", validation_loss=[[step, 0.5**step] for step in range(1, 12)])
      for name in ("transformer", "treeformer")),
    run("gpst/gpt2-0"), run("gpst_small/gpst-0"), {"name": "gpst/one_tree-0"}, {"name": "treebanks"},
    run("a/tg_shift-0", validation_loss=[[1, 2.0], [2, 1.0]]),
]  # fmt: skip


def texts(picture: Picture) -> list[Text]:
    return [shape for shape in picture.shapes if isinstance(shape, Text)]


def test_trainings_of_one_unit_share_a_picture() -> None:
    images = learning_curves([], TOY)
    names = ("a", "a-parsers", "a-words", "cogs", "gpst-gpt2", "gpst_small-gpst", "logic")
    assert list(images) == [f"curves-{name}.svg" for name in names]
    assert images["curves-gpst-gpt2.svg"].title == "GPT-2, larger"
    legend = [text.text for text in texts(images["curves-a.svg"])][-2:]
    assert legend == ["TG", "TXL (CC)"] and images["curves-a.svg"].title.endswith("each of 1 to 2 seeds and their mean")
    widths = [
        shape.width for shape in images["curves-a.svg"].shapes if isinstance(shape, Line) and len(shape.points) > 1
    ]
    assert widths.count(2.0) == 2  # a thick line for each model, and no thin line for a single seed
    assert "%" in texts(images["curves-logic.svg"])[-2].text and "95" in {
        t.text for t in texts(images["curves-logic.svg"])
    }


def test_results_of_the_queue_are_not_drawn_twice() -> None:
    result = {"model": "tg", "seed": 0, "validation": [[1, 2.0], [2, 1.5], [3, 1.0]]}
    images = learning_curves([result | {"experiment": name} for name in ("a", "b")], TOY)
    assert "curves-b.svg" in images and images["curves-a.svg"] == learning_curves([], TOY)["curves-a.svg"]


def test_a_mean_is_of_the_steps_that_all_seeds_have() -> None:
    assert mean_of([[(1, 2.0), (2, 4.0)], [(2, 2.0), (3, 0.0)]]) == [(2, 3.0)]
    assert without_beginning([(step, 1.0) for step in range(10, 310, 10)])[0] == (40, 1.0)
    assert without_beginning([(100, 3.0), (200, 2.0), (300, 1.0)]) == [(200, 2.0), (300, 1.0)]


def test_every_picture_is_there_and_shown() -> None:
    """The committed pictures are exactly those of the result files, and the page shows each of them once."""
    images = {name: svg(picture) for name, picture in learning_curves(RESULTS, RUNS).items()}
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("curves-*.svg")} == images
    names = re.findall(r"\(results/(curves-[^)]+)\)", (FOLDER.parent / "RESULTS.md").read_text(encoding="utf-8"))
    assert sorted(names) == sorted(images) == sorted(re.findall(r"\(results/([^)]+)\)", links(RESULTS, RUNS)))


@pytest.mark.parametrize(("results", "runs"), [(RESULTS, RUNS), ([], TOY)], ids=["committed", "toy"])
def test_texts_lie_inside_and_apart(results: list[Any], runs: list[Any]) -> None:
    for name, picture in learning_curves(results, runs).items():
        boxes = {text: box(text) for text in texts(picture)}
        for text, (left, top, right, bottom) in boxes.items():
            inside = left >= 0 and top >= 0 and right <= picture.width and bottom <= picture.height
            assert inside, f"{name}: {text.text}"
        for (one, a), (other, b) in combinations(boxes.items(), 2):
            apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
            assert apart, f"{name}: {one.text} and {other.text}"


def box(text: Text) -> tuple[float, float, float, float]:
    """Return the left, upper, right and lower end of a text."""
    width, half = text_width(text.text, text.size), text.size / 2
    before = {"start": 0.0, "middle": width / 2, "end": width}[text.anchor]
    if text.turn:
        return text.x - half, text.y - before, text.x + half, text.y - before + width
    return text.x - before, text.y - half, text.x - before + width, text.y + half

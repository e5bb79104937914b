"""Pictures: the committed Figure 2, trees, curves, files, and one line for a picture that cannot be drawn."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from itertools import pairwise
from math import log
from pathlib import Path
from xml.etree import ElementTree

import pytest

import accel
from accel import cli
from accel.data.corpora.treebank import Reading
from accel.drawing.curves import draw_curves, log_ticks
from accel.drawing.mask import COMPOSE, STACK, draw_mask
from accel.drawing.svg import Box, Line, Picture, PictureError, Text, save, svg, text_width
from accel.drawing.tree import draw_tree
from accel.models.transformer_grammars import model as transformer_grammar
from accel.trained.opening import open_model
from accel.training import checkpoint
from accel.training.directory import VOCABULARY, digest, save_settings
from accel.training.run import BEST, METRICS
from accel.verify.strategies import make_tree
from refimpl.transformer_grammars.stack_compose import attention_mask
from refimpl.trees import START, Tree, actions, double_closing
from tests.fixtures.toy_run import SURE, TREES
from tests.fixtures.toy_run import VOCABULARY as TOY_VOCABULARY

FIGURE2 = Tree("S", (Tree("NP", ("the", "blue", "bird")), Tree("VP", ("sings",))))
COMMITTED = Path(__file__).parents[2] / "specs" / "figure2.svg"


def draw(*arguments: object) -> int:
    return cli.main(["draw", *map(str, arguments)])


def test_figure2_is_drawn_by_the_project(tmp_path: Path) -> None:
    assert draw("mask", FIGURE2, "--out", tmp_path / "figure2.svg") == 0
    assert (tmp_path / "figure2.svg").read_text() == COMMITTED.read_text()


def test_mask_has_a_coloured_cell_for_every_pair() -> None:
    for seed in range(5):
        tree = make_tree("random", 9, seed)
        _, types = double_closing([START, *actions(tree)])
        text = svg(draw_mask(tree))
        colours = [text.count(f'fill="{colour}" stroke="#ffffff"') for colour in (STACK, COMPOSE)]
        assert sum(colours) == attention_mask(types).sum()


@pytest.mark.parametrize("shape", ["random", "left", "right"])
def test_tree_places_every_node_apart(shape: str) -> None:
    tree = make_tree(shape, 12, 3)
    texts = [shape for shape in draw_tree(tree).shapes if isinstance(shape, Text)]
    assert [text.text for text in texts] == [a.removeprefix("(") for a in actions(tree) if not a.endswith(")")]
    for row in {text.y for text in texts}:
        middles = [text.x for text in texts if text.y == row]
        assert all(b - a > 8 for a, b in zip(middles, middles[1:], strict=False))


@pytest.mark.parametrize("shape", ["random", "left", "right"])
def test_edges_of_a_tree_do_not_coincide(shape: str) -> None:
    """Every edge is vertical or horizontal, and no two of them share more than a point."""
    lines = [one.points for one in draw_tree(make_tree(shape, 12, 4)).shapes if isinstance(one, Line)]
    for axis in (0, 1):
        ends = [(a[1 - axis], *sorted((a[axis], b[axis]))) for a, b in lines if a[1 - axis] == b[1 - axis]]
        for (place, _, end), (next_place, begin, _) in pairwise(sorted(ends)):
            assert place < next_place or end <= begin
        lines = [line for line in lines if line[0][1 - axis] != line[1][1 - axis]]
    assert not lines


def test_svg_escapes_and_is_well_formed() -> None:
    picture = draw_tree(Tree("A&<", ("<b>", '"')))
    root = ElementTree.fromstring(svg(picture))
    assert [element.text for element in root if element.tag.endswith("text")] == ["A&<", "<b>", '"']
    assert "<b>" in (root[0].text or "")


def test_a_curve_of_one_point_is_a_mark() -> None:
    """A run with one validation has such a curve."""
    picture = draw_curves({"a": [(1, 5.0), (2, 3.0)], "b": [(2, 4.0)]}, y_label="y", title="t")
    [mark] = [shape for shape in picture.shapes if isinstance(shape, Box)]
    [curve] = [shape for shape in picture.shapes if isinstance(shape, Line) and shape.width == 2.0]
    assert mark.x + mark.width / 2 == pytest.approx(curve.points[1][0])
    assert curve.points[0][1] < mark.y + mark.height / 2 < curve.points[1][1]


def test_curves_stay_inside() -> None:
    labels = {"y_label": "y", "title": "t"}
    picture = draw_curves({"a": [(1, 5.0), (2, -3.0)], "a*": [(1, 7.0), (3, 0.0)], "b": [(0, 0.5)]}, **labels)
    ElementTree.fromstring(svg(picture))
    for shape in picture.shapes:
        for x, y in shape.points if isinstance(shape, Line) else [(shape.x, shape.y)]:
            assert 0 < x < picture.width and 0 < y < picture.height
    for points in ([], [(1.0, float("nan"))]):
        with pytest.raises(PictureError, match="nothing to draw"):
            draw_curves({"a": points}, **labels)


def test_curves_of_one_name_share_a_colour_and_a_place_in_the_legend() -> None:
    """The legend goes where fewer points are: below curves that rise, above curves that fall."""
    labels = {"y_label": "y", "title": "t"}
    rising = [(float(k), float(k)) for k in range(9)]
    picture = draw_curves({"a": rising, "a*": rising, "a**": rising, "b": rising}, **labels)
    lines = [shape for shape in picture.shapes if isinstance(shape, Line) and len(shape.points) == 9]
    assert [line.width for line in lines] == [1.0, 1.0, 2.0, 2.0] and lines[0].stroke == lines[1].stroke
    falling = draw_curves({"a": [(x, -y) for x, y in rising], "b": rising[:1]}, **labels)
    for drawing, is_below in ((picture, True), (falling, False)):
        *_, first, _, last = (shape for shape in drawing.shapes if not isinstance(shape, Line) or shape.width == 3)
        assert [text.text for text in (first, last) if isinstance(text, Text)] == ["a", "b"]
        assert (first.y > drawing.height / 2) == is_below  # type: ignore[union-attr]


def test_curves_of_one_colour_differ_by_their_dashes(tmp_path: Path) -> None:
    """Dashes are the same in the picture and in its legend, which stands beside the axes and has room for all names."""
    labels = {"y_label": "y", "title": "t"}
    curves = {f"run {k}": [(0.0, float(k)), (5000.0, k + 1.0)] for k in range(20)}
    picture = draw_curves({**curves, "run 7*": curves["run 8"], "mark": [(1.0, 2.0)]}, **labels)
    lines = [shape for shape in picture.shapes if isinstance(shape, Line)]
    looks = {width: [(line.stroke, line.dashes) for line in lines if line.width == width] for width in (2.0, 3.0)}
    assert len(set(looks[2.0])) == len(looks[2.0]) == 20 and looks[3.0][:20] == looks[2.0]
    assert not any(dashes for _, dashes in looks[2.0][:6]) and all(dashes for _, dashes in looks[2.0][6:])
    [thin] = [line for line in lines if line.width == 1.0 and len(line.dashes)]
    assert thin.dashes == looks[2.0][7][1]
    [mark] = [shape for shape in picture.shapes if isinstance(shape, Box)]
    assert mark.fill == "none" and mark.stroke == looks[3.0][20][0]
    names = [shape for shape in picture.shapes if isinstance(shape, Text) and shape.text in (*curves, "mark")]
    right = max(x for line in lines if line.width == 2.0 for x, _ in line.points)
    assert all(right < text.x and text.y < picture.height - 6 for text in names)
    assert all(text.x + text_width(text.text, 11) < picture.width for text in names)
    assert svg(picture).count('stroke-dasharray="6 3"') == 6 + 6 + 1  # curves, legend and the thin curve
    pytest.importorskip("matplotlib", reason="PNG is drawn by matplotlib, the extra `plot`")
    save(picture, tmp_path / "curves.png")


def test_a_logarithmic_axis_tells_small_values_apart() -> None:
    labels = {"y_label": "y", "title": "t", "logarithmic": True}
    picture = draw_curves({"a": [(1, 4.0), (2, 0.02), (3, 0.01)]}, **labels)
    [(_, top), (_, low), (_, lowest)] = next(s.points for s in picture.shapes if isinstance(s, Line) and s.width == 2)
    assert (lowest - low) / (lowest - top) == pytest.approx(log(2) / log(400))
    assert {"0.01", "0.02", "0.05", "1", "5"} <= {s.text for s in picture.shapes if isinstance(s, Text)}
    assert log_ticks([3e-5, 20.0]) == pytest.approx([1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10, 100])
    assert log_ticks([10.0]) == [10, 20] and log_ticks([0.3, 1.0]) == pytest.approx([0.2, 0.5, 1])
    with pytest.raises(PictureError, match="t: a logarithmic axis has no place for 0 and less"):
        draw_curves({"a": [(1, 0.0)]}, **labels)


def test_draw_attention_and_losses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parameters = transformer_grammar.initialise(SURE, 0)
    (tmp_path / VOCABULARY).write_text(TOY_VOCABULARY.to_json())
    save_settings(tmp_path, Reading(), {})
    state = {"config": asdict(SURE), "vocabulary": digest(TOY_VOCABULARY)}
    checkpoint.save(tmp_path / BEST, checkpoint.Checkpoint(parameters, state))
    (tmp_path / METRICS).write_text("".join(json.dumps({"step": k, "loss": 9 - k}) + "\n" for k in range(1, 4)))
    assert open_model(accel.load("cpu"), tmp_path).config == SURE
    out = tmp_path / "picture.svg"
    assert draw("attention", TREES[3], "--checkpoint", tmp_path, "--layer", 1, "--head", 2, "--out", out) == 0
    ElementTree.parse(out)
    assert draw("loss", tmp_path, "--out", out) == 0
    ElementTree.parse(out)
    same = [tmp_path / folder / "run" for folder in ("one", "two")]
    for run in same:
        run.mkdir(parents=True)
        (run / METRICS).write_text((tmp_path / METRICS).read_text())
    assert draw("loss", *same, "--out", out) == 2  # two runs do not become one curve
    assert f"{same[1]}: two runs are called run: rename a directory" in capsys.readouterr().err


def test_a_picture_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    save(draw_mask(FIGURE2), tmp_path / "mask.svg")
    before = (tmp_path / "mask.svg").read_bytes()
    assert draw("tree", "(S \udcff)", "--out", tmp_path / "mask.svg") == 2  # a wrong byte from the shell
    assert [path.name for path in tmp_path.iterdir()] == ["mask.svg"]
    assert (tmp_path / "mask.svg").read_bytes() == before


def test_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="PNG is drawn by matplotlib, the extra `plot`")
    save(draw_mask(FIGURE2), tmp_path / "mask.png")
    assert (tmp_path / "mask.png").read_bytes().startswith(b"\x89PNG")
    strange = Picture(40, 20, (Text(2, 10, "a \U0001f426"),), "a bird")  # no font of matplotlib has it
    with pytest.raises(
        PictureError, match=r"x.png: the font of PNG has no \U0001f426 \(in 'a .'\): name the picture .svg"
    ):
        save(strange, tmp_path / "x.png")
    assert not (tmp_path / "x.png").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mask", "(S (NP the"), "line 1, column 1: unclosed bracket"),
        (("tree", "missing.txt"), "missing.txt: no such file: give a tree with brackets"),
        (("tree", "(S a)", "(S b)"), "tree: give one tree in quotation marks"),
        (("attention", "(S a)"), "give the model with --checkpoint"),
        (("mask", str(make_tree("random", 150, 0))), "positions are too many for one picture: at most 200"),
        (("loss", str(COMMITTED)), "figure2.svg:1: not the metrics of a step"),
    ],
)
def test_errors(arguments: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert draw(*arguments, "--out", tmp_path / "x.svg") == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_errors_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Picture(10, 10, (), "nothing")
    with pytest.raises(PictureError, match=r"x.gif: name the picture .svg or .png"):
        save(picture, tmp_path / "x.gif")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(PictureError, match=r"PNG needs matplotlib \(pip install 'grove-lm\[plot\]'\)"):
        save(picture, tmp_path / "x.png")


def test_wide_letters_have_their_place() -> None:
    """Words in capitals or in Chinese do not run into each other."""
    assert text_width("MW", 10) > 1.4 * text_width("nn", 10) > 2 * text_width("il", 10)
    assert text_width("太陽", 10) == 20 and text_width("e\u0301", 10) == text_width("e", 10)


@pytest.mark.parametrize("letter", ["\x01", "\x7f", "\udc80", "\ufffe", "\u00e9", "\U0001f426"])
def test_an_svg_is_xml_or_refused(letter: str, tmp_path: Path) -> None:
    """Once, no program could open the picture of a word with a control character."""
    tree = Tree("S", (f"a{letter}", "b"))
    if letter in "\x01\udc80\ufffe":
        with pytest.raises(PictureError, match=r"an SVG cannot have the character '\\.*: leave it out"):
            save(draw_tree(tree), tmp_path / "x.svg")
        assert not list(tmp_path.iterdir())
    else:
        save(draw_tree(tree), tmp_path / "x.svg")
        assert ElementTree.parse(tmp_path / "x.svg")

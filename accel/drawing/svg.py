"""Pictures: a few shapes at fixed places, written as SVG by these functions, or as PNG by matplotlib.

Units are pixels, from the upper left corner. Colours are those of SVG, as "#4c78a8".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any
from unicodedata import combining, east_asian_width

from accel.data.files.written import replaced

FONT = "DejaVu Sans, Verdana, Helvetica, sans-serif"
INK, GREY, FAINT = "#222222", "#666666", "#d8d8d8"

_ASCII_WIDTHS = (  # of the letters from the space to the tilde, in DejaVu Sans: hundredths of the size
    32, 41, 46, 84, 64, 96, 78, 28, 40, 40, 50, 84, 32, 37, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64,
    64, 64, 34, 34, 84, 84, 84, 54, 100, 69, 69, 70, 78, 64, 58, 78, 76, 30, 30, 66, 56, 87, 75, 79,
    61, 79, 70, 64, 62, 74, 69, 99, 69, 62, 69, 40, 34, 40, 84, 50, 50, 62, 64, 55, 64, 62, 36, 64,
    64, 28, 28, 58, 28, 98, 64, 62, 64, 64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84,
)  # fmt: skip
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class PictureError(ValueError):
    """A picture cannot be drawn; the message is one line with the reason."""


@dataclass(frozen=True)
class Box:
    """A filled rectangle; without a colour only the outline."""

    x: float
    y: float
    width: float
    height: float
    fill: str = "none"
    stroke: str = "none"


@dataclass(frozen=True)
class Line:
    """A line through two or more points; `dashes` are the lengths of its dashes and gaps in turn, none if solid."""

    points: tuple[tuple[float, float], ...]
    stroke: str = INK
    width: float = 1.0
    dashes: tuple[float, ...] = ()


@dataclass(frozen=True)
class Text:
    """One line of text; (x, y) is its start, middle or end, at half the height of small letters; `turn`: it runs up."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    size: float = 12.0
    fill: str = INK
    turn: bool = False


Shape = Box | Line | Text


@dataclass(frozen=True)
class Picture:
    """Shapes on a white sheet, later ones above earlier ones, and a title in words."""

    width: float
    height: float
    shapes: tuple[Shape, ...] = field(repr=False)
    title: str

    def _repr_svg_(self) -> str:
        """Return the SVG that a notebook shows for a picture."""
        return svg(self)


def text_width(text: str, size: float) -> float:
    """Return the width of a text in DejaVu Sans, the widest of the fonts; approximate beyond ASCII."""
    return size * sum(_letter_width(letter) for letter in text) / 100


def _letter_width(letter: str) -> float:
    if " " <= letter <= "~":
        return _ASCII_WIDTHS[ord(letter) - ord(" ")]
    return 0 if combining(letter) else 100 if east_asian_width(letter) in "WF" else 75


def shortened(text: str) -> str:
    """Return the text, with dots for its end if it is longer than a title."""
    return text if len(text) <= 80 else text[:77] + "..."


def mixed(colour: str, share: float) -> str:
    """Return the colour mixed with white; even for a share of 0 enough of the colour is left to be seen."""
    share = 0.06 + 0.94 * min(max(share, 0.0), 1.0)
    parts = (int(colour[k : k + 2], 16) for k in (1, 3, 5))
    return "#" + "".join(f"{round(255 - share * (255 - part)):02x}" for part in parts)


def save(picture: Picture, path: str | Path) -> None:
    """Write a picture to a file whose name ends in .svg or .png.

    Raises
    ------
    PictureError
        If the name ends otherwise, or matplotlib is missing for a PNG.
    """
    path = Path(path)
    check_name(path)
    if path.suffix == ".svg":
        content = svg(picture).encode()
    else:
        content = _png(picture, path)
    with replaced(path) as file:
        file.write(content)


def check_name(path: Path) -> None:
    """Raise PictureError unless the name of a picture ends in .svg or .png."""
    if path.suffix not in (".svg", ".png"):
        raise PictureError(f"{path}: name the picture .svg or .png")


def svg(picture: Picture) -> str:
    """Return the picture as the text of an SVG file, which can also be part of HTML.

    Raises
    ------
    PictureError
        If a text has a character that no XML file may have, such as a control character.
    """
    for words in (picture.title, *(shape.text for shape in picture.shapes if isinstance(shape, Text))):
        for letter in filter(_NO_XML.match, words):
            raise PictureError(f"an SVG cannot have the character {letter!r} (in {words!r}): leave it out")
    width, height = _number(picture.width), _number(picture.height)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        f' role="img" font-family="{FONT}">'
    )
    sheet = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(picture.title)}</title>", sheet, *_elements(picture.shapes), "</svg>\n"])


def _elements(shapes: Iterable[Shape]) -> Iterable[str]:
    for shape in shapes:
        if isinstance(shape, Box):
            place = f'x="{_number(shape.x)}" y="{_number(shape.y)}"'
            size = f'width="{_number(shape.width)}" height="{_number(shape.height)}"'
            yield f'<rect {place} {size} fill="{shape.fill}" stroke="{shape.stroke}"/>'
        elif isinstance(shape, Line):
            points = " ".join(f"{_number(x)},{_number(y)}" for x, y in shape.points)
            width = _number(shape.width)
            dashes = f' stroke-dasharray="{" ".join(map(_number, shape.dashes))}"' if shape.dashes else ""
            yield f'<polyline points="{points}" fill="none" stroke="{shape.stroke}" stroke-width="{width}"{dashes}/>'
        else:
            x, y = _number(shape.x), _number(shape.y)
            turn = f' transform="rotate(-90 {x} {y})"' if shape.turn else ""
            style = f'font-size="{_number(shape.size)}" fill="{shape.fill}" text-anchor="{shape.anchor}"'
            # dy instead of dominant-baseline, which some programs do not support
            yield f'<text x="{x}" y="{y}" dy="0.35em" {style}{turn}>{escape(shape.text)}</text>'


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _png(picture: Picture, path: Path) -> bytes:
    """Return the picture as a PNG file; errors name `path`."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.font_manager import FontProperties, findfont
        from matplotlib.ft2font import FT2Font
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle
    except ModuleNotFoundError as error:
        raise PictureError(f"{path}: PNG needs matplotlib (pip install 'grove-lm[plot]'); .svg does not") from error
    charmap = FT2Font(findfont(FontProperties())).get_charmap()
    for words in (shape.text for shape in picture.shapes if isinstance(shape, Text)):
        for letter in words:
            if ord(letter) not in charmap:
                raise PictureError(f"{path}: the font of PNG has no {letter} (in {words!r}): name the picture .svg")
    scale = 2.0  # pixels of the file for one of the picture
    figure = Figure((picture.width / 72, picture.height / 72), dpi=72 * scale, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), xlim=(0, picture.width), ylim=(picture.height, 0))
    axes.axis("off")
    for order, shape in enumerate(picture.shapes):
        if isinstance(shape, Box):
            style: dict[str, Any] = {"facecolor": shape.fill, "edgecolor": shape.stroke, "linewidth": 1.0}
            axes.add_patch(Rectangle((shape.x, shape.y), shape.width, shape.height, zorder=order, **style))
        elif isinstance(shape, Line):
            x, y = zip(*shape.points, strict=True)
            style = {"color": shape.stroke, "linewidth": shape.width, "dash_capstyle": "butt"}
            if shape.dashes:
                style["dashes"] = [length / shape.width for length in shape.dashes]  # matplotlib's unit is the width
            axes.add_line(Line2D(x, y, zorder=order, **style))
        else:
            anchor = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
            rotation: dict[str, Any] = {"rotation": 90.0 if shape.turn else 0.0, "rotation_mode": "anchor"}
            style = {"fontsize": shape.size, "color": shape.fill, **rotation}
            text = shape.text.replace("$", r"\$")  # no formulas
            axes.text(shape.x, shape.y, text, ha=anchor, va="center_baseline", zorder=order, **style)
    content = BytesIO()
    figure.savefig(content, format="png", metadata={"Title": picture.title})
    return content.getvalue()

"""The report of the demo: tables and pictures, as HTML (one file) and as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from accel.data.corpora.treebank import Corpus
from accel.data.files.brackets import read_trees
from accel.data.generated.grammar import CONSTRUCTIONS
from accel.drawing.attention import attention_weights
from accel.drawing.curves import Points, draw_curves, read_losses
from accel.drawing.mask import draw_mask, draw_weights
from accel.drawing.svg import Picture, save, svg
from accel.drawing.tree import draw_tree
from accel.trained.opening import open_model
from examples.markdown import table

GARDEN_PATH = "(S (NP (NP the horse) (VP raced (PP past (NP the barn)))) (VP fell) .)"

LEAST = 1e-4  # nats a word: smaller differences are drawn here, since a logarithmic axis cannot show 0 or less

Rows = list[list[str]]  # the first is the head

_TITLE = "Transformer Grammars on generated English"
_STYLE = """:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#222;background:#fff}
div{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0}figure{margin:1rem 0}svg{max-width:100%;height:auto}
td,th{padding:.25rem .75rem;border-bottom:1px solid #8884;text-align:right}
td:first-child,th:first-child{text-align:left}td+td{white-space:nowrap}
@media(prefers-color-scheme:dark){body{color:#d6d6d6;background:#141414}svg{filter:invert(.92) hue-rotate(180deg)}}"""


def write_report(
    ops: ModuleType, out: Path, figures: Mapping[str, Any], models: Mapping[str, str], valid: Corpus
) -> str:
    """Write report.html, report.md and the pictures, and return the tables as text."""
    floor = figures["floor"]
    parts: list[str | Rows | tuple[str, Picture]] = [
        f"Three models of the same size, trained on generated English. Its grammar is known, so that "
        f"the lowest possible word perplexity is known too: {floor:.3f} for all its sentences, and "
        f"{figures['true_perplexity']:.3f} for the test sentences, whose true probabilities are exact. TG and TXL (CC) "
        f"give probabilities to trees; summed over proposals they bound the perplexity from above. "
        f"The whole demo took {figures['seconds']:.0f} seconds.",
        _perplexities(figures, models),
        "Agreement: how often the verb that agrees with its subject is more probable than the same verb in the other "
        "number, when every noun in between has the other number. Chance is 50 %. The models of trees read the "
        "sentence with its tree, TXL (terminals) the sentence. Held-out constructions never occur in training.",
        _agreement(figures, models),
        f"How far the loss on validation sentences is above that of the true grammar during training, in nats a word. "
        f"The loss is the sum over the actions of a tree, or over words; the true grammar's, "
        f"{figures['true_validation_loss']:.3f}, is the lowest possible. The axis is logarithmic.",
        ("losses", _losses(out, figures, models, valid)),
        "A garden path, as the models of trees read it:",
        ("tree", draw_tree(next(read_trees([GARDEN_PATH])))),
        "The attention mask of a Transformer Grammar: a row is the position that attends. A closing bracket first "
        "composes its constituent (orange); later positions attend to the stack (blue), where the constituent is one "
        "element.",
        ("mask", draw_mask(next(read_trees([GARDEN_PATH])))),
        "The attention of the trained TG: the mean over the heads of its last layer.",
        ("attention", _attention(ops, out)),
    ]
    html, markdown = [], [f"# {_TITLE}", ""]
    for part in parts:
        if isinstance(part, str):
            html.append(f"<p>{escape(part)}</p>")
            markdown += [part, ""]
        elif isinstance(part, list):
            html.append(_html_table(part))
            markdown += [table(part[0], part[1:]), ""]
        else:
            name, picture = part
            save(picture, out / f"{name}.svg")
            html.append(f"<figure>{svg(picture)}</figure>")
            markdown += [f"![{picture.title}]({name}.svg)", ""]
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f'<link rel="icon" href="data:,"><title>{_TITLE}</title><style>{_STYLE}</style>'
    text = "\n".join([head, f"<h1>{_TITLE}</h1>", *html, "</html>\n"])
    (out / "report.html").write_text(text, encoding="utf-8")
    (out / "report.md").write_text("\n".join(markdown), encoding="utf-8")
    return "\n\n".join(table(part[0], part[1:]) for part in parts if isinstance(part, list))


def _perplexities(figures: Mapping[str, Any], models: Mapping[str, str]) -> Rows:
    rows = [["model", "parameters", "word perplexity", "of the true grammar, same sentences", "entropy floor"]]
    for name, title in models.items():
        scores = figures["models"][name]
        bound = "≤ " if scores["is_bound"] else ""
        cells = [f"{scores['parameters']:,}", f"{bound}{scores['perplexity']:.3f}"]
        rows.append([title, *cells, f"{figures['true_perplexity']:.3f}", f"{figures['floor']:.3f}"])
    return rows


def _agreement(figures: Mapping[str, Any], models: Mapping[str, str]) -> Rows:
    def cells(names: list[str]) -> list[str]:
        shares = [np.mean([figures["models"][name]["agreement"][c] for c in names]) for name in models]
        return [f"{100 * share:.1f} %" for share in shares]

    rows = [["subject of the verb", "held out", *models.values()]]
    for construction, held_out in CONSTRUCTIONS.items():
        rows.append([construction.replace("_", " "), "yes" if held_out else "no", *cells([construction])])
    for held_out, word in ((False, "no"), (True, "yes")):
        rows.append(["mean", word, *cells([c for c, is_held_out in CONSTRUCTIONS.items() if is_held_out == held_out])])
    return rows


def _losses(out: Path, figures: Mapping[str, Any], models: Mapping[str, str], valid: Corpus) -> Picture:
    n_words = int(valid.words.sum())
    curves: dict[str, Points] = {}
    for name, title in models.items():
        events = int(valid.terminals.sum()) + len(valid) if name == "txl_terminals" else len(valid.actions)
        losses = [(step, loss * events / n_words) for step, loss in read_losses(out / name)[1]]
        curves[title] = [(step, max(loss - figures["true_validation_loss"], LEAST)) for step, loss in losses]
    title, y_label = "Validation loss above that of the true grammar", "nats a word"
    return draw_curves(curves, y_label=y_label, title=title, logarithmic=True)


def _attention(ops: ModuleType, out: Path) -> Picture:
    attention = attention_weights(ops, open_model(ops, out / "tg"), next(read_trees([GARDEN_PATH])))
    return draw_weights(
        attention.tokens, attention.types, attention.weights[-1].mean(axis=0), "Attention of the trained TG"
    )


def _html_table(rows: Rows) -> str:
    cells = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows[1:]]
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    return f"<div><table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table></div>"

"""The page on which people judge two translations: one HTML file, which needs no network and saves a sheet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape

from accel.evaluation.error_analysis import CATEGORIES, CORRECT
from accel.evaluation.error_sheet import COLUMNS, Item

_STYLE = """:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto 6rem;padding:0 1rem;color:#222;background:#fff}
article{border-top:1px solid #8886;padding:1rem 0}h2{font-size:1rem;margin:0 0 .5rem}
dl{display:grid;grid-template-columns:max-content 1fr;column-gap:1rem;margin:0 0 .5rem}
dt{opacity:.7}dd{margin:0;overflow-wrap:anywhere}
div.outputs{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20rem,100%),1fr));gap:1rem}
fieldset{border:1px solid #8886;border-radius:.4rem;margin:0;min-width:0}fieldset.judged{border-color:#2a7}
fieldset p{margin:0 0 .5rem;overflow-wrap:anywhere}label{display:inline-block;margin-right:1rem;white-space:nowrap}
footer{position:fixed;left:0;right:0;bottom:0;padding:.6rem 1rem;text-align:center;background:#eee}
button{font:inherit;padding:.2rem 1rem;margin-left:1rem}
@media(prefers-color-scheme:dark){body{color:#d6d6d6;background:#141414}footer{background:#2a2a2a}}"""

# A cell with quotation marks, tabs or line ends is put in quotation marks, as Python's csv reads and writes it.
_SCRIPT = """const items = [...document.querySelectorAll("article")], boxes = [...document.querySelectorAll("input")];
const place = "grove compare " + items.map(item => item.id).join("");
const ticked = (item, letter) => [...item.querySelectorAll(`fieldset[data-of*=${letter}] input:checked`)]
  .map(box => box.value).join(" ");
const text = (item, name) => item.querySelector(`[data-text*=${name}]`).textContent;
const cell = text => /["\\t\\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
const row = item => [item.id, text(item, "source"), text(item, "reference"), text(item, "A"), text(item, "B"),
  ticked(item, "A"), ticked(item, "B")];
const sheet = () => [COLUMNS, ...items.map(row)].map(cells => cells.map(cell).join("\\t") + "\\n").join("");
function show() {
  for (const set of document.querySelectorAll("fieldset"))
    set.classList.toggle("judged", set.querySelector("input:checked") !== null);
  const done = items.filter(item => !item.querySelector("fieldset:not(.judged)")).length;
  document.querySelector("output").textContent = `${done} of ${items.length} judged`;
}
document.addEventListener("change", event => {
  const others = [...event.target.closest("fieldset").querySelectorAll("input")].filter(box => box !== event.target);
  if (event.target.checked)
    for (const box of others) if (event.target.value === CORRECT || box.value === CORRECT) box.checked = false;
  show();
  try { localStorage.setItem(place, JSON.stringify(boxes.map(box => box.checked))); } catch {}
});
document.querySelector("button").addEventListener("click", () => {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([sheet()], {type: "text/tab-separated-values"}));
  link.download = NAME;
  link.click();
});
try { (JSON.parse(localStorage.getItem(place)) || []).forEach((on, i) => boxes[i].checked = on); } catch {}
show();"""


def page(items: Sequence[Item], name: str) -> str:
    """Return the HTML page of a sheet; its button saves the judged sheet under the file name `name`."""
    meanings = "".join(f"<dt>{category}</dt><dd>{meaning}</dd>" for category, meaning in CATEGORIES.items())
    constants = {"COLUMNS": COLUMNS, "CORRECT": CORRECT, "NAME": name}
    script = "".join(f"const {key} = {_script_text(value)};\n" for key, value in constants.items()) + _SCRIPT
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f'<link rel="icon" href="data:,"><title>Errors of translations</title><style>{_STYLE}</style>'
    rules = (
        "<p>Tick what is true of every output: correct alone, or one or more kinds of errors. Two systems wrote the "
        "outputs; which of them is A changes from sentence to sentence. The browser keeps your ticks on this computer. "
        "At the end save the sheet.</p>"
    )
    articles = (_article(number, item) for number, item in enumerate(items, 1))
    foot = '<footer><output></output><button type="button">Save the sheet</button></footer>'
    body = [f"<h1>Errors of translations</h1>{rules}<dl>{meanings}</dl>", *articles, foot]
    return "\n".join([head, *body, f"<script>{script}</script>", "</html>\n"])


def _article(number: int, item: Item) -> str:
    """Return the HTML of a sentence; equal outputs are judged together."""
    texts = "".join(
        f'<dt>{name}</dt><dd dir="auto" data-text="{name}">{escape(text)}</dd>'
        for name, text in (("source", item.source), ("reference", item.reference))
    )
    a, b = item.outputs
    sets = [_fieldset("A B", a)] if a == b else [_fieldset("A", a), _fieldset("B", b)]
    return (
        f'<article id="{item.id}"><h2>{number}</h2><dl>{texts}</dl><div class="outputs">{"".join(sets)}</div></article>'
    )


def _fieldset(letters: str, output: str) -> str:
    boxes = " ".join(f'<label><input type="checkbox" value="{name}"> {name}</label>' for name in CATEGORIES)
    legend = f"output{'s' * (len(letters) > 1)} {letters.replace(' ', ' and ')}"
    text = f'<p dir="auto" data-text="{letters}">{escape(output)}</p>'
    return f'<fieldset data-of="{letters}"><legend>{legend}</legend>{text}{boxes}</fieldset>'


def _script_text(value: object) -> str:
    """Return a value as JavaScript, without "<", which could end the script."""
    return json.dumps(value).replace("<", "\\u003c")

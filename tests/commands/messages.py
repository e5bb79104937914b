"""Write the page messages.md: commands with mistakes, and the answers of `grove`.

python -m tests.commands.messages

Every command is really run, in a folder with small runs and files. A test holds that the page is current.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from unittest.mock import patch

from accel import cli
from accel.models.transformer_grammars import model
from tests.fixtures.toy_house import House, train

PAGE = Path(__file__).with_suffix(".md")
HEAD = """\
# Messages

What is typed, and what is answered. `python -m tests.commands.messages` runs every command and writes this page; a test
runs them again. Every answer is one line on standard error (folded here), with exit status 2: it says where, what is
wrong, and what to type instead.

`tg` and `words` are runs of a Transformer Grammar and of a Transformer-XL over words, `other` is a run with another
vocabulary. The checkpoint of `cut` has lost its end, in that of `damaged` one byte is changed, and `bare` has no
`vocabulary.json`; another process trains `busy`.
`train.trees` and `valid.trees` are small treebanks without part-of-speech tags.
"""


@dataclass(frozen=True)
class Typed:
    """A command without `grove`, and the files that it reads; the file "-" is standard input."""

    command: str
    files: Mapping[str, str] = field(default_factory=dict)


SCORE = "score --checkpoint tg"
PERPLEXITY = "perplexity --checkpoint tg"
TRAIN = "train --out new --data train.trees --keep-tags"
THEMES: dict[str, list[Typed]] = {
    "Commands and options": [
        Typed("scor trees"),
        Typed("fly"),
        Typed("score --chekpoint tg valid.trees"),
        Typed("score"),
        Typed("generate --checkpoint tg --checkpoint words"),
        Typed("parse text --checkpoint tg --checkpoint words"),
        Typed("score --checkpoint tg valid.trees --keep-tags --no-keep-tags"),
        Typed("glue tg"),
        Typed("induction --gold valid.trees --checkpoint tg --layers 1 --layers 2"),
        Typed("train --out new --data train.trees --model lstm"),
        Typed("train --out new --task poems"),
        Typed("parse text --checkpoint"),
        Typed("perplexity --checkpoint tg --trees valid.trees --proposals valid.trees"),
        Typed("perplexity --checkpoint tg --trees valid.trees --gold valid.trees"),
        Typed("rerank --checkpoint tg --proposals - --gold -"),
    ],
    "Numbers": [
        Typed("parse text --checkpoint tg --beam 0"),
        Typed("parse text --checkpoint tg --beam many"),
        Typed("generate --checkpoint tg --top-k -1"),
        Typed("generate --checkpoint tg --words 0"),
        Typed("translate text --checkpoint tg --length-penalty nan"),
        Typed("score --checkpoint tg valid.trees --batch-size 0"),
        Typed("surprisal text --checkpoint tg --context-lines -1"),
        Typed("parse text --checkpoint tg --max-height 0"),
        Typed("score --checkpoint tg valid.trees --threads 0"),
        Typed("train --out new --task span_parser --max-words many"),
        Typed("train --out new --task gpst --beam -1"),
        Typed("minimal_pairs --checkpoint tg --data pairs.jsonl --format blimp --per 0"),
        Typed("minimal_pairs --checkpoint tg --data pairs.jsonl --format blimp --seed 7"),
    ],
    "Files": [
        Typed(f"{SCORE} nowhere.trees"),
        Typed(f"{SCORE} empty.trees", {"empty.trees": ""}),
        Typed(f"{SCORE} blank.trees", {"blank.trees": "\n \n"}),
        Typed("parse blank --checkpoint tg", {"blank": "\n \n"}),
        Typed(f"{SCORE} bad.trees", {"bad.trees": "(S (NP they)\n(VP raced\n"}),
        Typed(f"{SCORE} bad.trees", {"bad.trees": "(S they)\n(S (NP) raced)\n"}),
        Typed(f"{SCORE} bad.trees", {"bad.trees": "(S they)) (S he)\n"}),
        Typed(f"{SCORE} bad.trees", {"bad.trees": "(S they) sing\n"}),
        Typed(f"{SCORE} -", {"-": "(S they)\n( (S he) (S she) )\n"}),
        Typed(f"{SCORE} bad.trees", {"bad.trees": "(S they \xff)\n"}),
        Typed(f"{SCORE} bad.trees.gz", {"bad.trees.gz": "(S they)\n"}),
        Typed("parse text --checkpoint tg --out nowhere/trees"),
        Typed("parse text --checkpoint tg --out ."),
        Typed("parse text --checkpoint tg --out ''"),
        Typed("parse text --checkpoint tg --out tg/metrics.jsonl"),
        Typed("export tg words"),
        Typed("export tg text/new"),
        Typed("compare --tally nowhere.tsv"),
        Typed(f"{SCORE} ."),
        Typed("train --out - --data train.trees"),
    ],
    "Words, labels and tags": [
        Typed(f"{SCORE} bad.trees", {"bad.trees": "(XP they)\n"}),
        Typed(f"{PERPLEXITY} --trees bad.trees", {"bad.trees": "(S they)\n(S zebra)\n"}),
        Typed("parse lines --checkpoint tg", {"lines": "they raced\n\nzebra raced\n"}),
        Typed("generate --checkpoint tg --prefix 'the zebra'"),
        Typed("score --checkpoint tg valid.trees --no-keep-tags"),
        Typed("parse --checkpoint tg --gold valid.trees --preset fasttrees"),
    ],
    "Proposals": [
        Typed(f"{PERPLEXITY} --proposals p.trees", {"p.trees": "(S they)\n(S he)\n"}),
        Typed("rerank --checkpoint tg --proposals p.trees --gold valid.trees", {"p.trees": "(S they)\n\n(S he)\n"}),
        Typed(f"{PERPLEXITY} --numbered --proposals p.trees", {"p.trees": "(S they)\n"}),
        Typed(f"{PERPLEXITY} --numbered --proposals p.trees", {"p.trees": "2\t(S they)\n1\t(S he)\n"}),
        Typed(f"{PERPLEXITY} --numbered --proposals p.trees --max-words 1", {"p.trees": "2\t(S they sing)\n"}),
        Typed(
            "rerank --checkpoint tg --proposals p.trees --gold valid.trees --parameters my.prm",
            {"p.trees": "(S they)\n", "my.prm": "LABELED 1\nNONSENSE 1\n"},
        ),
    ],
    "Runs and checkpoints": [
        Typed("score --checkpoint nowhere valid.trees"),
        Typed("score --checkpoint . valid.trees"),
        Typed("score --checkpoint valid.trees valid.trees"),
        Typed("score --checkpoint cut valid.trees"),
        Typed("score --checkpoint damaged valid.trees"),
        Typed("score --checkpoint bare valid.trees"),
        Typed("score --checkpoint tg --checkpoint words valid.trees"),
        Typed("score --checkpoint tg --checkpoint other valid.trees"),
        Typed("rerank --checkpoint words --proposals proposals.trees --gold valid.trees"),
        Typed("propose text --checkpoint tg --out proposals"),
        Typed("parse text --checkpoint words"),
        Typed("parse text --checkpoint tg --mode inside"),
        Typed("surprisal text --checkpoint words --beam 5"),
        Typed("evaluate tg"),
        Typed("metrics tg/best.safetensors"),
    ],
    "Training": [
        Typed(f"{TRAIN.replace('new', 'tg')} --steps 6"),
        Typed("train --out new --resume"),
        Typed("train --out tg --resume --seed 4"),
        Typed("train --out tg --resume --set d_model=32"),
        Typed("train --out tg --resume --steps 3"),
        Typed("train --out tg --resume --data valid.trees"),
        Typed("train --out tg --resume --task logic"),
        Typed("train --out busy --resume"),
        Typed("train --out new"),
        Typed("train --out new --data nowhere.trees"),
        Typed("train --out new --data -"),
        Typed(f"{TRAIN.replace(' --keep', ' --no-keep')}"),
        Typed(f"{TRAIN} --set d_modle=32"),
        Typed(f"{TRAIN} --set d_model=many"),
        Typed(f"{TRAIN} --set d_model=15"),
        Typed(f"{TRAIN} --set n_layers=0"),
        Typed(f"{TRAIN} --set core_dropout=1.0"),
        Typed(f"{TRAIN} --set maximum_rate=nan"),
        Typed(f"{TRAIN} --steps 0"),
        Typed(f"{TRAIN} --positions linear"),
        Typed(f"{TRAIN} --set learning_rate=1"),
        Typed(f"{TRAIN} --set steps"),
        Typed(f"{TRAIN} --set vocabulary_size=9"),
        Typed(f"{TRAIN} --set clip_norm=-1"),
    ],
    "Backends and pictures": [
        Typed("verify abacus"),
        Typed("verify cpu --only layer_nrom"),
        Typed("score --checkpoint tg valid.trees --backend gpu"),
        Typed(f"{TRAIN} --precision bf16"),
        Typed(f"{TRAIN} --kernels fast"),
        Typed("draw mask '(S (NP the' --out mask.svg"),
        Typed("draw tree valid.trees --number 99 --out tree.svg"),
        Typed("draw tree valid.trees --out tree.gif"),
        Typed("draw attention valid.trees --out attention.svg"),
    ],
}


def build(folder: Path) -> None:
    """Train the runs that the commands of the page read, and damage copies of them."""
    house = House(folder, ("tg", "words"))
    assert cli.main(train(folder / "other", house.valid)) == 0
    (folder / "text").write_text("they raced\n")
    for name in ("cut", "damaged", "bare", "busy"):
        shutil.copytree(folder / "tg", folder / name)
    path = folder / "cut" / "best.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    path = folder / "damaged" / "best.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    (folder / "bare" / "vocabulary.json").unlink()
    (folder / "busy" / "run.lock").write_text("4321 node7\n")


def answer(typed: Typed, folder: Path) -> str:
    """Return what the command prints in the folder; files that it adds to the folder are removed."""
    before = {path.name for path in folder.iterdir()}
    out, err, typed_in = io.StringIO(), io.StringIO(), io.TextIOWrapper(io.BytesIO())
    for name, text in typed.files.items():
        if name == "-":
            typed_in = io.TextIOWrapper(io.BytesIO(text.encode("latin-1")))
        else:
            (folder / name).write_bytes(text.encode("latin-1"))
    streams = redirect_stdout(out), redirect_stderr(err), patch.object(sys, "stdin", typed_in)
    with chdir(folder), streams[0], streams[1], streams[2], patch.object(model, "loss_and_grad", _nothing_is_trained):
        status = cli.main(shlex.split(typed.command))
    text = err.getvalue().replace(f"{folder.resolve()}{os.sep}", "")
    if status != 2 or out.getvalue() or text.count("\n") != 1:
        raise AssertionError(f"{typed.command}: status {status}, prints {out.getvalue()[:200]!r}, refuses by {text!r}")
    for path in [path for path in folder.iterdir() if path.name not in before]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return text


def _nothing_is_trained(*arguments: object, **options: object) -> None:
    raise AssertionError("a command of the page is not refused")


def lines_of(typed: Typed) -> list[str]:
    """Return the lines to type in a shell: they write the files, then run the command."""
    quoted = {name: repr(text.encode("latin-1"))[1:] for name, text in typed.files.items()}
    piped = f"printf {quoted.pop('-')} | " if "-" in quoted else ""
    return [*(f"$ printf {text} > {name}" for name, text in quoted.items()), f"$ {piped}grove {typed.command}"]


def page() -> str:
    """Return the text of the page; it trains the runs and runs all commands."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            build(folder)
        parts = [HEAD]
        for theme, commands in THEMES.items():
            blocks = ["\n".join([*lines_of(typed), *_folded(answer(typed, folder))]) for typed in commands]
            parts.append(f"\n## {theme}\n\n```console\n" + "\n\n".join(blocks) + "\n```\n")
    return "".join(parts)


def _folded(text: str) -> list[str]:
    return textwrap.wrap(text, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

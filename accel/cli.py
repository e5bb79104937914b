"""The command line, `grove` or `python -m accel.cli`: its commands, and how they fail.

A mistake of the user ends with status 2 and one line on stderr that says where and why; an interrupt with status 130,
and a training that SIGTERM ends with 143.
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from signal import SIGINT
from typing import Any, NoReturn

import accel
from accel.commands.interrupts import heard, held
from accel.commands.streams import open_closed
from accel.data.files import written

COMMANDS = {
    "prepare": ("accel.commands.prepare", "published treebanks as files of trees, with a check of their counts"),
    "train": ("accel.commands.train", "train a model for a --task"),
    "info": ("accel.commands.info", "what a run is, how far it has come, its last losses and its data"),
    "evaluate": ("accel.commands.evaluate", "score a trained model on the test data of its task"),
    "glue": ("accel.commands.glue", "one table of the sets of GLUE, with means over seeds and the average"),
    "score_outputs": ("accel.commands.score_outputs", "BLEU, ROUGE or CoGnition's errors of a file of outputs"),
    "import": ("accel.commands.import_weights", "import published weights: language models of FastTrees, or an ALBERT"),
    "export": ("accel.commands.export", "a trained model as a folder for a model hub, with a model card"),
    "score": ("accel.commands.score", "log p of trees, or of lines of words"),
    "perplexity": ("accel.commands.perplexity", "perplexity per word; for models of trees, a bound from proposals"),
    "propose": ("accel.commands.propose", "the most probable trees of sentences, by a parser: proposals"),
    "rerank": ("accel.commands.rerank", "the most probable of proposal trees, and their F1"),
    "parse": ("accel.commands.parse", "the trees that a model predicts, with or without labels, and their F1"),
    "induction": ("accel.commands.induction", "one table of the trees that several models induce, with their F1"),
    "translate": ("accel.commands.translate", "the best targets that an encoder-decoder writes, by beam search"),
    "compare": ("accel.commands.compare", "two models' translations on a blind sheet, to judge; and its tally"),
    "generate": ("accel.commands.generate", "text that a generative model writes, word by word"),
    "surprisal": ("accel.commands.surprisal", "the surprisal of every word under a model, in bits"),
    "syntaxgym": ("accel.commands.syntaxgym", "a model's accuracy on SyntaxGym's items, by suite and circuit"),
    "minimal_pairs": ("accel.commands.minimal_pairs", "how often a model prefers the good sentence of a minimal pair"),
    "embed": ("accel.commands.embed", "a GPST's vectors of every word and constituent of a text"),
    "draw": ("accel.commands.draw", "pictures of masks, attention, trees, distances and charts"),
    "metrics": ("accel.commands.metrics", "the last values of a run's metrics, or all as events of TensorBoard"),
    "verify": ("accel.commands.verify", "test a backend against the reference on this machine"),
    "backends": ("accel.commands.backends", "which backends run on this machine"),
}
FILES = """\
files:
  "-" is standard input. As a file to write, as with --out, it is standard output, and the figures go to stderr.
  Files are UTF-8, with or without a byte-order mark, and may be .gz or .xz.
  Text has one sentence a line, with blanks between the words. A blank line is no sentence: it ends a document. Tables
  have no row for it; an output with a line for every line of the text has a blank line, too. Only language models of
  words read blank lines, as in WikiText: the end of such a line counts in their losses and perplexities.
  Trees are in brackets: one a line, several on a line, or one over several lines. Blank lines between trees are
  skipped, or end a document or the proposals for a sentence.
  Messages name a place as file:line:column; lines and columns are counted from 1."""
OPTIONS = {
    "backend": "where to compute: cpu, cuda (a GPU), or ref (the reference, slow)",
    "configuration": "the sizes of model and training; those named after data are the paper's",
    "epochs": "how often all training data are read",
    "kind": "the kind of model",
    "memory": "of a tg: what the memory keeps: the stack, or the last positions (default: the configuration's)",
    "model": "the kind of model",
    "positions": "of a tg: what relative positions count: depths in the tree, or words (default: the configuration's)",
    "seed": "of all random numbers",
    "steps": "updates of the parameters (default: the task's)",
    "unrestricted_heads": "of a tg: attention heads that see everything before (default: the configuration's)",
}
"""Help for options that mean the same in every command."""
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_READ_AGAIN = ("grove train", "grove evaluate")
_TO_WRITE = ("out", "rows", "by_sentence", "picture", "write")  # options whose file is written


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are ValueErrors that say what to type instead."""

    def error(self, message: str) -> NoReturn:
        match = re.fullmatch(r"argument ([^:]+): (.*)", message)
        if match is None:
            raise ValueError(f"{message} (see {self.prog} --help)")
        name, reason = match.groups()
        for kind, noun in (("int", "a whole number"), ("float", "a number")):
            reason = re.sub(f"^invalid {kind} value: '(.*)'$", rf"\1: {noun} is needed", reason)
        reason = re.sub("^not allowed with argument (.*)$", r"contradicts \1: give one of them", reason)
        if reason.startswith("contradicts"):
            raise ValueError(f"{name}: {reason}")
        if ": " in reason:  # the value, and what is wrong with it
            raise ValueError(f"{name} {reason}")
        raise ValueError(f"{name}: {reason} (see {self.prog} --help)")

    def _get_value(self, action: argparse.Action, text: str) -> Any:
        if action.type is Path and not text:  # Path("") is the current folder
            raise argparse.ArgumentError(action, '"": an empty name: name a file or a folder')
        return super()._get_value(action, text)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"{value}: {_nearest(value, names)}choose one of {', '.join(names)}")

    def complete_help(self) -> None:
        """Give every option a text for --help, with its default."""
        for action in self._actions:
            action.help = action.help or OPTIONS.get(action.dest, "")
            default = action.default
            if type(default) in (str, int, float) and default != argparse.SUPPRESS:
                text = f"{default:,}" if type(default) is int else str(default)
                if text not in action.help and str(default) not in action.help:
                    action.help += f" ({text})"

    def check_options(self, arguments: Sequence[str]) -> None:
        """Raise ValueError for an option that does not exist, or that takes one value and is given twice."""
        names: dict[str, str] = {}  # of every given option: the name that was typed
        for text in arguments:
            name = text.partition("=")[0]
            if not name.startswith("--") or " " in name:
                continue
            if name in ("--", "--help"):
                return
            action = self._option_string_actions.get(name)
            if action is None:
                suggestion = _nearest(name, self._option_string_actions)
                if name == "--checkpoint" and any(action.dest == "run" for action in self._actions):
                    suggestion = "give RUN without --checkpoint; "
                raise ValueError(f"{name}: no such option: {suggestion}see {self.prog} --help")
            if action.dest in names and not isinstance(action, argparse._AppendAction):
                other = names[action.dest]
                if name != other:
                    raise ValueError(f"{name}: contradicts {other}: give one of them")
                raise ValueError(f"{name}: given twice: give it once{', with all its values' if action.nargs else ''}")
            names[action.dest] = name

    def check_standard_input(self, options: argparse.Namespace) -> None:
        """Raise ValueError if standard input or output is given for two options, or is read more than once."""
        for stream, is_stream in (("input", lambda dest: dest not in _TO_WRITE), ("output", _TO_WRITE.__contains__)):
            names = [
                "/".join(action.option_strings) or str(action.metavar or action.dest)
                for action in self._actions
                if is_stream(action.dest) and Path("-") in _values(getattr(options, action.dest, None))
            ]
            if names and stream == "input" and self.prog in _READ_AGAIN:
                raise ValueError(f"{names[0]} -: {self.prog} reads its data more than once: name a file")
            if len(names) > 1:
                raise ValueError(f"{names[1]} -: standard {stream} is that of {names[0]} already: name a file")


def main(argv: list[str] | None = None) -> int:
    """Run one command, and return its exit status: 0, 2, 130, 143, or 1 if `score` or `verify` reports a failure."""
    argv = sys.argv[1:] if argv is None else argv
    open_closed()
    try:
        with heard():
            status = _run(argv)
            with written.named("standard output"):
                sys.stdout.flush()
            return status
    except KeyboardInterrupt as stop:  # Ctrl-C, or a signal whose number `Stopped` holds
        status = _fail(str(stop) or "interrupted", 128 + getattr(stop, "number", SIGINT))
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if "--traceback" in argv or not isinstance(error, mistakes()):
            raise
        status = _fail(f"error: {in_words(error)}", 2)
    if "mpi4py" in sys.modules:
        from accel.commands.processes import stop_all

        stop_all(status)
    return status


def _run(argv: list[str]) -> int:
    """Import the module of this command only, run the command, and return its exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        return _print_help()
    if argv[0] == "--version":
        print(f"grove {accel.__version__}")
        return 0
    name, *arguments = argv
    if name not in COMMANDS:
        raise ValueError(f"{name}: no such command: {_nearest(name, COMMANDS)}see grove --help")
    module, summary = COMMANDS[name]
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    help_text = "processor threads (default: all; to train a narrow model: 1)"
    common.add_argument("--threads", type=int, metavar="N", help=help_text)
    common.add_argument("--traceback", action="store_true", help="show where in the code an error was raised")
    files = "Files, standard input (-) and blank lines: see grove --help."
    parser = _Parser(f"grove {name}", description=summary, epilog=files, parents=[common], allow_abbrev=False)
    _use_threads(arguments)
    with _uncollected():
        command: Any = import_module(module)
    command.add_arguments(parser)
    if hasattr(command, "prepare"):
        command.prepare(arguments, parser)
    parser.complete_help()
    parser.check_options(arguments)
    options = parser.parse_args(arguments)
    parser.check_standard_input(options)
    if name != "verify" and getattr(options, "backend", None) == "cpu":  # not cuda: `train` chooses the GPU first
        with _uncollected():
            accel.load("cpu")
    return int(command.run(options))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Switch garbage collection off inside, for imports, and exempt the modules' objects from all later collections.

    This saves a third of the time of a short command. Ctrl-C takes effect after the imports.
    """
    if "numba" in sys.modules:
        yield
        return
    gc.disable()
    try:
        with held():
            yield
    finally:
        gc.freeze()
        gc.enable()


def _print_help() -> int:
    epilog = "\n".join(["commands:", *(f"  {name:15}{text}" for name, (_, text) in COMMANDS.items()), "", FILES])
    parser = _Parser("grove", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=epilog)
    parser.add_argument("--version", action="store_true", help="print the version")
    parser.add_argument("command", metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="grove COMMAND --help lists them")
    parser.print_help()
    return 0


def _nearest(name: str, names: Iterable[str]) -> str:
    """Return the question whether the most similar of `names` was meant; "" if none is similar."""
    return "".join(f"did you mean {match}? " for match in get_close_matches(str(name), list(names), 1))


def _values(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _use_threads(arguments: list[str]) -> None:
    """Use as many threads as --threads says, if it is given; this must precede any import of NumPy."""
    parser = _Parser("grove", add_help=False, allow_abbrev=False)
    parser.add_argument("--threads", type=int)
    threads: int | None = parser.parse_known_args(arguments)[0].threads
    if threads is None:
        return
    if threads < 1:
        raise ValueError(f"--threads {threads}: at least 1 is needed")
    if "numpy" in sys.modules:
        raise ValueError("--threads: NumPy is loaded already: start grove in a new process")
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))


def mistakes() -> tuple[type[Exception], ...]:
    """Return the errors whose messages tell a user what to change."""
    from accel.training.checkpoint import CheckpointError
    from accel.training.run import TrainingError

    error_types = ValueError, OSError, MemoryError, ModuleNotFoundError
    return *error_types, accel.BackendUnavailable, CheckpointError, TrainingError


def in_words(error: Exception) -> str:
    from accel.trained.options import OptionError

    if isinstance(error, OSError) and error.strerror:
        advice = {errno.EISDIR: ": name a file in it", errno.ENOENT: ": check the name"}.get(error.errno or 0, "")
        return f"{error.filename}: {error.strerror}{advice}" if error.filename else error.strerror
    text = error.typed() if isinstance(error, OptionError) else str(error)
    words = " ".join(text.split()) or type(error).__name__
    if isinstance(error, MemoryError):
        return f"{words}: not enough memory; use a smaller --batch-size or --micro-batch, or a smaller model"
    is_closed = "in the closed vocabulary" in words and "; use " not in words  # grove train names the option itself
    return f"{words}; use a model that reads unknown words, as grove train makes by default" if is_closed else words


def _fail(message: str, status: int) -> int:
    """Print the message, and drop what standard output does not take: Python would try again at its exit."""
    print(f"grove: {message}", file=sys.stderr)
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return status


if __name__ == "__main__":
    sys.exit(main())

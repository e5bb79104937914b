"""The command line, `grove` or `python -m accel.cli`: its commands, and how they fail.

A mistake of the user ends with status 2 and one line on stderr that says where and why; an interrupt with status 130.
"""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import Any, NoReturn

COMMANDS = {
    "prepare": ("accel.commands.prepare", "published treebanks as files of trees, with a check of their counts"),
    "train": ("accel.commands.train", "train a model for a --task"),
    "evaluate": ("accel.commands.evaluate", "score a trained model on the test data of its task"),
    "import": ("accel.commands.import_weights", "import the weights of language models trained with the released code"),
    "score": ("accel.commands.score", "log p of trees, or of lines of words"),
    "perplexity": ("accel.commands.perplexity", "perplexity per word; for models of trees, a bound from proposals"),
    "propose": ("accel.commands.propose", "the most probable trees of sentences, by a parser: proposals"),
    "rerank": ("accel.commands.rerank", "the most probable of proposal trees, and their F1"),
    "parse": ("accel.commands.parse", "the trees that a model predicts, with or without labels, and their F1"),
    "induction": ("accel.commands.induction", "one table of the trees that several models induce, with their F1"),
    "translate": ("accel.commands.translate", "the best targets that an encoder-decoder writes, by beam search"),
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
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message} (see {self.prog} --help)")


def main(argv: list[str] | None = None) -> int:
    """Run one command, and return its exit status: 0, 1 where `verify` found a difference, 2, or 130."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        status = _run(argv)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        status = _fail("interrupted; files saved so far are kept", 130)
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except _mistakes() as error:
        if "--traceback" in argv:
            raise
        status = _fail(f"error: {_in_words(error)}", 2)
    if "mpi4py" in sys.modules:
        from accel.commands.processes import stop_all

        stop_all(status)
    return status


def _run(argv: list[str]) -> int:
    """Import the module of the command, and no other, and run the command."""
    common = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    common.add_argument("--threads", type=int, metavar="N", help="processor threads (default: all)")
    common.add_argument("--traceback", action="store_true", help="show where in the code an error was raised")
    names = "\n".join(f"  {name:15}{summary}" for name, (_, summary) in COMMANDS.items())
    parser = _Parser("grove", formatter_class=argparse.RawDescriptionHelpFormatter, epilog=f"commands:\n{names}")
    parser.add_argument("command", choices=COMMANDS, metavar="COMMAND", help="one of the commands below")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="grove COMMAND --help lists them")
    call = parser.parse_args(argv)
    module, summary = COMMANDS[call.command]
    parser = _Parser(f"grove {call.command}", description=summary, parents=[common], allow_abbrev=False)
    _use_threads(_thread_count(call.arguments))
    command: Any = import_module(module)
    command.add_arguments(parser)
    if hasattr(command, "prepare"):
        command.prepare(call.arguments, parser)
    return int(command.run(parser.parse_args(call.arguments)))


def _thread_count(arguments: list[str]) -> int | None:
    """Return the number of threads, which must be set before any import of NumPy."""
    parser = _Parser("grove", add_help=False, allow_abbrev=False)
    parser.add_argument("--threads", type=int)
    threads: int | None = parser.parse_known_args(arguments)[0].threads
    return threads


def _use_threads(threads: int | None) -> None:
    if threads is None:
        return
    if threads < 1:
        raise ValueError(f"--threads {threads}: at least one is needed")
    if "numpy" in sys.modules:
        raise ValueError("--threads: NumPy is loaded already: start grove in a new process")
    os.environ.update(dict.fromkeys(_THREADS, str(threads)))


def _mistakes() -> tuple[type[Exception], ...]:
    """Return the errors whose messages tell a user what to change."""
    from accel import BackendUnavailable
    from accel.training.checkpoint import CheckpointError
    from accel.training.run import TrainingError

    return ValueError, OSError, MemoryError, ModuleNotFoundError, BackendUnavailable, CheckpointError, TrainingError


def _in_words(error: Exception) -> str:
    from accel.trained.options import OptionError

    if isinstance(error, OptionError):
        return error.typed()
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return " ".join(str(error).split()) or type(error).__name__


def _fail(message: str, status: int) -> int:
    print(f"grove: {message}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())

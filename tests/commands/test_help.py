"""`grove COMMAND --help` says what every option is for, and its default."""

from __future__ import annotations

import argparse

import pytest

from accel import cli
from accel.models.albert.config import KINDS
from accel.models.gpst.config import MODELS
from accel.tasks.job import TASKS


class HelpPrinted(Exception):  # noqa: N818
    """Raised in the place of printing help, when the parser of a command is complete."""


def parser_of(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    """Return the parser of a command; it is caught when --help would print it."""
    parsers = []

    def keep(parser: argparse.ArgumentParser, *_: object) -> None:
        parsers.append(parser)
        raise HelpPrinted

    monkeypatch.setattr(argparse.ArgumentParser, "print_help", keep)
    with pytest.raises(HelpPrinted):
        cli.main([*arguments, "--help"])
    return parsers[-1]


@pytest.mark.parametrize("command", [*cli.COMMANDS, *(f"train --task {task}" for task in TASKS)])
def test_every_option_has_a_text_with_its_default(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parser = parser_of(command.split(), monkeypatch)
    for action in parser._actions:
        name = "/".join(action.option_strings) or action.dest
        assert action.help and action.help.strip(), f"grove {command} {name} has no help"
        if type(action.default) in (str, int, float) and action.default != argparse.SUPPRESS:
            texts = {str(action.default), f"{action.default:,}" if type(action.default) is int else str(action.default)}
            assert any(text in action.help for text in texts), f"grove {command} {name}: {action.default}?"
    assert parser.format_help().startswith("usage: grove")


@pytest.mark.parametrize("task", ["glue", "inference", "sentiment", "summarisation"])
def test_the_help_of_checkpoint_names_the_models_that_start_from_it(task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = parser_of(["train", "--task", task], monkeypatch)._option_string_actions
    text, models = options["--checkpoint"].help or "", set(options["--model"].choices or ())
    assert models & {*text.replace(",", "").split()} == models & {*MODELS, *KINDS}

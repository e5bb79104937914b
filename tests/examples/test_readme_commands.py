"""Every command and every block of Python in the READMEs runs, in order, on small stand-ins of its files.

What a README prints below a command of a console block is compared with what the command prints, without digits.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from accel import cli
from tests.fixtures.command_line import forget_modules
from tests.fixtures.readme_blocks import READMES, ROOT, Command, Python, skeleton, steps
from tests.fixtures.readme_files import write_stand_in, write_stand_ins
from tests.fixtures.readme_runs import BEFORE, CONSTANTS, DRAWN, NEEDED, UNTRAINED, reason_not_to_run, smaller

FILES = pytest.mark.parametrize("path", READMES, ids=lambda path: str(path.relative_to(ROOT)))


class OptionsRead(Exception):  # noqa: N818
    """Raised when the options of a command are read, in the place of running it."""


@FILES
def test_commands_run_in_order(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if package := NEEDED.get(str(path.relative_to(ROOT))):
        pytest.importorskip(package, reason=f"{package} is not installed: make test-frameworks")
    write_stand_ins(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for module, name, value in CONSTANTS:
        monkeypatch.setattr(import_module(module), name, value)
    for text in BEFORE.get(str(path.relative_to(ROOT)), ()):
        assert cli.main(smaller(text.split())) == 0
    names: dict[str, Any] = {}
    for step in steps(path):
        place = f"{path.relative_to(ROOT)}:{step.line}"
        capfd.readouterr()
        if isinstance(step, Python):
            run_python(step, names, place)
        elif reason_not_to_run(step.text):
            read_options(step.text, monkeypatch, place)
        else:
            write_stand_in(step.text, tmp_path)
            forget_modules(tmp_path)
            status, out, err = run(step.text, monkeypatch, capfd)
            unfinished = any(step.text.startswith(begin) and words in err for begin, words in UNTRAINED.items())
            assert status in expected(step) or unfinished, f"{place}: {step.text}\n{out}{err}"
            compare(step, f"{out}\n{err}".splitlines(), place)


def test_every_command_has_an_example() -> None:
    text = (ROOT / "accel/commands/README.md").read_text(encoding="utf-8")
    for command in cli.COMMANDS:
        section = text.partition(f"\n## {command}\n")[2].partition("\n## ")[0]
        assert f"grove {command}" in section.replace("`", ""), f"accel/commands/README.md: no example of {command}"


def expected(step: Command) -> tuple[int, ...]:
    """Return the statuses that a command may end with: those of an error, if the README shows one below it."""
    return (1, 2) if any("error:" in line or "differs" in line for line in step.printed) else (0,)


def run_python(step: Python, names: dict[str, Any], place: str) -> None:
    """Run a block of Python; if its first line names a file, write the block into the file."""
    first = step.text.partition("\n")[0]
    if first.startswith("# ") and first.endswith(".py"):
        Path(first.removeprefix("# ")).write_text(step.text, encoding="utf-8")
    exec(compile(step.text, place, "exec"), names)


def run(text: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run a command, in this process if it is one of ours; return its status and its output."""
    words, into = shlex.split(text, comments=True), None
    if "|" in words:  # the command after it only shortens the output
        words = words[: words.index("|")]
    if ">" in words:
        into = words[words.index(">") + 1]
        words = words[: words.index(">")]
    if words[0] == "grove":
        status = cli.main(smaller(words[1:]))
    elif words[:2] == ["python", "-m"] and words[2] not in ("pytest",):
        status = main_of(smaller(words[2:]), monkeypatch)
    else:
        command = [sys.executable, *words[1:]] if words[0] == "python" else words
        command = [sys.executable, "-m", *words, "-p", "grove_pytest"] if words[0] == "pytest" else command
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        process = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        sys.stdout.write(process.stdout)
        sys.stderr.write(process.stderr)
        status = process.returncode
    out, err = capfd.readouterr()
    if into is not None:
        Path(into).write_text(out, encoding="utf-8")
    return status, out, err


def main_of(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a module of ours as `python -m` does."""
    monkeypatch.setattr(sys, "argv", words)
    is_package = (ROOT / words[0].replace(".", "/") / "__main__.py").exists()
    name = f"{words[0]}.__main__" if is_package else words[0]
    try:
        import_module(name).main(*([words[1:]] if "benchmarks" not in words[0] else []))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    return 0


def read_options(text: str, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Read the options of a command that is not run; an option that does not exist is an error."""
    words = shlex.split(text, comments=True)
    words = words[words.index("grove") :] if "grove" in words else words
    for word in words:
        if word.startswith("QUEUE="):  # the options that `make results` passes on
            words = ["python", "-m", "examples.queue", *shlex.split(word.removeprefix("QUEUE="))]
    parse = argparse.ArgumentParser.parse_args

    def stop(parser: argparse.ArgumentParser, *arguments: Any) -> argparse.Namespace:
        namespace = parse(parser, *arguments)
        if parser.prog == "grove":  # the command has a parser of its own
            return namespace
        raise OptionsRead

    with monkeypatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", stop)
        if words[0] == "grove":
            with pytest.raises(OptionsRead):
                cli.main(words[1:])
        elif words[0] in ("python", "python3") and words[1] == "-m":
            with pytest.raises(OptionsRead):
                assert main_of(words[2:], patch) == 0, place


def compare(step: Command, lines: list[str], place: str) -> None:
    """Check that every line of the README is among the printed lines, up to numbers; "..." stands for omitted lines."""
    readme_lines = [line for line in step.printed if line.strip() and line.strip() != "..."]
    if not readme_lines:
        return
    assert any(line.strip() for line in lines), f"{place}: prints nothing"
    if not step.text.startswith(DRAWN):
        here = {skeleton(line) for line in lines}
        for line in readme_lines:
            assert skeleton(line) in here, f"{place}: {line!r} is not printed, but:\n" + "\n".join(lines)

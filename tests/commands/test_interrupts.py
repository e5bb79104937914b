"""Ctrl-C in places where Python or NumPy would suppress it."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterator
from time import monotonic, sleep

import pytest

from accel.commands.interrupts import heard

AT_IMPORT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
def hook(event, arguments):
    if event == "import" and arguments[0] == "datetime" and "numpy" in sys.modules:  # by NumPy's own code in C
        os.kill(os.getpid(), signal.SIGINT)
sys.addaudithook(hook)
from accel.cli import main
sys.exit(main(["score", "--help"]))
"""


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Handle interrupts as a program in a terminal does: a program in the background of a shell ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_in_a_callback_comes_again() -> None:
    """Python drops every exception in a callback from C; the interrupt is raised again after it."""
    entry = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    numbers = (ctypes.c_int * 2)(2, 1)
    before = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), heard():
        ctypes.CDLL(None).qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), entry(interrupted))
        begin = monotonic()
        while monotonic() - begin < 30:
            sleep(0.01)
    assert sys.unraisablehook is before


def test_other_lost_errors_are_those_of_python(capsys: pytest.CaptureFixture[str]) -> None:
    entry = ctypes.CFUNCTYPE(None)

    def wrong() -> None:
        raise ValueError("lost")

    sys.unraisablehook, before = sys.__unraisablehook__, sys.unraisablehook
    try:
        with heard():
            entry(wrong)()
    finally:
        sys.unraisablehook = before
    assert "ValueError: lost" in capsys.readouterr().err


def test_an_interrupt_while_numpy_is_imported() -> None:
    """The command prints one line, and not NumPy's long advice on broken installations."""
    process = subprocess.run(
        [sys.executable, "-c", AT_IMPORT], capture_output=True, text=True, timeout=300, check=False
    )
    assert not process.stdout and (process.returncode, process.stderr) == (130, "grove: interrupted\n")

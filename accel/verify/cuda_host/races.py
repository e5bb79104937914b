"""A race that races.cc has found, in words."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Sequence
from typing import Any

import numpy as np

KINDS = ("reads", "writes", "changes atomically")
PARAMETERS = re.compile(r"^#define (\w+)(?:\(([\w, ]*)\))? +((?:.*\\\n)*.*)$", flags=re.MULTILINE)
"""Matches a macro: its name, arguments and text. The text may be several parameters of a kernel, named by arguments."""


class Access(ctypes.Structure):
    """An access as in `Found` of races.cc: `code` is an address in the library."""

    _fields_ = [(name, ctypes.c_uint32) for name in ("block", "thread", "kind", "code")]


class Found(ctypes.Structure):
    """`Found` of races.cc: how many races the last launch had, and the first one."""

    _fields_ = [("count", ctypes.c_uint64), ("address", ctypes.c_uint64), ("accesses", Access * 2)]


def race(library: ctypes.PyDLL, text: str, kernel: str, args: Sequence[Any]) -> str:
    """Return the first race of the last launch in words: the number in memory, and both threads with their lines.

    It is empty if there was none.
    """
    library.races_found.restype = ctypes.POINTER(Found)
    report = library.races_found().contents
    if not report.count:
        return ""
    first, second = report.accesses
    one_block = first.block == second.block
    threads = [f"thread {x.thread}" if one_block else f"block {x.block}, thread {x.thread}" for x in report.accesses]
    lines = _lines(library, [x.code for x in report.accesses])
    acts = [
        f"{thread} {KINDS[x.kind]} it in {line}"
        for thread, x, line in zip(threads, report.accesses, lines, strict=True)
    ]
    where = f"block {first.block}: " if one_block else ""
    barrier = "no barrier between them" if one_block else "no barrier orders blocks"
    return f"race at {_number(library, text, kernel, args, report.address)}: {where}{acts[0]}, {acts[1]}, and {barrier}"


def _lines(library: ctypes.PyDLL, codes: Sequence[int]) -> list[str]:
    """Return the file and line of every place; for an inlined function also the line that calls it."""
    lines = []
    for code in codes:
        command = ["addr2line", "-i", "-e", library._name, hex(code - 1)]  # code is a return address
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        places = [re.sub(r"^.*/| \(discriminator \d+\)$", "", line) for line in process.stdout.splitlines()]
        lines.append(" of ".join(dict.fromkeys((places[0], places[-1]))))
    return lines


def _names(text: str, kernel: str) -> list[str]:
    """Return the names of a kernel's parameters; a macro may stand for several of them, and contain other macros."""
    signature = re.search(rf"__global__ void {kernel}\(((?:[^()]|\([^()]*\))*)\)", text)
    macros = {name: (arguments, body.replace("\\\n", "")) for name, arguments, body in PARAMETERS.findall(text)}
    words, before = signature[1] if signature else "", ""

    def expanded(match: re.Match[str]) -> str:
        arguments, body = macros.get(match[1], ("", match[0]))
        for argument, value in zip(arguments.split(","), (match[2] or "").split(","), strict=False):
            body = re.sub(rf"(?:##)?\b{argument.strip()}\b", value.strip(), body) if value else body
        return body

    while words != before:
        before, words = words, re.sub(r"\b(\w+)\b(?:\(([^()]*)\))?", expanded, words)
    return [re.split(r"[\s*]", x.strip())[-1] for x in words.split(",")] if words else []


def _number(library: ctypes.PyDLL, text: str, kernel: str, args: Sequence[Any], address: int) -> str:
    """Return what lies at an address: an element of an argument, by its name, or of shared memory."""
    names = _names(text, kernel)
    for name, array in zip(names, args, strict=True):
        if isinstance(array, np.ndarray) and 0 <= address - array.ctypes.data < array.nbytes:
            place = np.unravel_index((address - array.ctypes.data) // array.itemsize, array.shape)
            return f"{name}[{', '.join(map(str, place))}]"
    for part in ("dynamic_shared_begin", "dynamic_shared_end", "static_shared_begin"):
        getattr(library, part).restype = ctypes.c_uint64
    begin = library.dynamic_shared_begin()
    if begin <= address < library.dynamic_shared_end():
        return f"byte {address - begin} of the block's dynamic shared memory"
    return f"byte {address - library.static_shared_begin()} of the block's static shared memory"

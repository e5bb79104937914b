"""The report as a page: what was done so far, in the order of the parts, and the same in one file of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from textwrap import wrap
from typing import Any

from benchmarks.gpu_report.operations import summary
from benchmarks.gpu_report.part import PARTS
from benchmarks.gpu_report.records import BEGUN, DONE, Setting, read_rows, write
from benchmarks.gpu_report.steps import COMPARED, FORMS, words

Rows = dict[str, dict[str, Any]]
HEAD = "# A GPU report of Grove"
NOTES = "notes.md"
"""A file in the report's folder, written by hand: what a reader must know; it stands at the top of the page."""
WAYS = tuple(map(words, FORMS))
WIDTH = 120
SHOWN = 5
"""Kernels of a step that the page shows."""


def write_page(setting: Setting) -> None:
    """Write report.md and report.json from the rows of all parts."""
    parts = {part: read_rows(setting.out, part) for part in PARTS}
    write(setting.out / "report.json", json.dumps(parts, indent=1) + "\n")
    write(setting.out / "report.md", "\n\n".join(blocks(setting, parts)) + "\n")


def blocks(setting: Setting, parts: dict[str, Rows]) -> Iterator[str]:
    """Yield headings, paragraphs, tables and lists; a blank line comes between them."""
    yield HEAD
    if setting.stand_in:
        yield "**No GPU was measured: kernels ran on the CPU. Only the form is shown.**"
    if setting.small:
        yield "**Sizes are small: times say nothing of a training.**"
    notes = setting.out / NOTES
    if notes.exists():
        yield notes.read_text(encoding="utf-8").strip()
    sections: dict[str, tuple[str, Callable[[Setting, str, dict[str, Rows]], list[str]]]] = {
        "environment": ("Machine", environment), "rates": ("Rates of the machine", rates),
        "operations": ("Tests of every operation", tests), "steps": ("Training steps", steps),
        "kernels": ("Kernels of the training steps", kernels),
        "peers": ("Beside PyTorch", peers), "trainings": ("Losses of short trainings", trainings),
        "sanitizer": ("compute-sanitizer", sanitizer), "suite": ("The rest of the tests", tests),
    }  # fmt: skip
    for part in PARTS:
        title, section = sections[part]
        yield f"## {title}"
        for block in (section(setting, part, parts), left(part, parts[part])):
            if block:
                yield "\n".join(block)


def done(rows: Rows) -> Rows:
    return {name: row for name, row in rows.items() if row["status"] == DONE}


def left(part: str, rows: Rows) -> list[str]:
    """Return what is missing, has failed or has not been reached."""
    if not rows:
        return [f"- {part}: not reached: start the command again to continue"]
    lines = []
    for name, row in rows.items():
        reason = f"{row['status']}: {row.get('reason')}"
        if row["status"] == BEGUN:
            reason = "not finished when this page was written; rows after it are missing"
        if row["status"] != DONE:
            lines += item(f"{name.replace(' | ', ', ')}: {reason}")
    return lines


def item(text: str) -> list[str]:
    """Return the lines of an item of a list."""
    return wrap(text, WIDTH, initial_indent="- ", subsequent_indent="  ", break_long_words=False)


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    cells = [[cell.replace(" | ", ", ") for cell in row] for row in (head, ("---",) * len(head), *rows)]
    return [f"| {' | '.join(row)} |" for row in cells] if rows else []


def environment(setting: Setting, part: str, parts: dict[str, Rows]) -> list[str]:
    rows = done(parts[part])
    hidden = ("row", "status", "took")
    cells = [(name, ", ".join(f"{k} {v}" for k, v in row.items() if k not in hidden)) for name, row in rows.items()]
    return table(("what", "figures"), cells)


def rates(setting: Setting, part: str, parts: dict[str, Rows]) -> list[str]:
    units = {
        "bytes_per_second": (1e-12, "TB/s"), "plain_flops": (1e-12, "TFLOP/s by CuPy"),
        "fast_flops": (1e-12, "TFLOP/s by cuBLASLt"),
        "seconds": (1e6, "us"), "host_seconds": (1e6, "us of the host"),
    }  # fmt: skip
    cells = []
    for name, row in done(parts[part]).items():
        figures = [f"{row[key] * scale:.3g} {unit}" for key, (scale, unit) in units.items() if key in row]
        cells.append((name, ", ".join(figures)))
    return table(("what", "rate"), cells)


def tests(setting: Setting, part: str, parts: dict[str, Rows]) -> list[str]:
    """Return the outcomes so far: also of a part whose time was over."""
    outcome = summary(setting, part)
    counts = f"{outcome['passed']} passed, {outcome['failed']} failed, {outcome['skipped']} skipped."
    failures = [line for test, reason in outcome["failures"].items() for line in item(f"{test}: {reason}")]
    return [counts, "", *failures] if failures else [counts]


def sanitizer(setting: Setting, part: str, parts: dict[str, Rows]) -> list[str]:
    cells = []
    for name, row in done(parts[part]).items():
        verdict = "errors: " + " ".join(row["errors"]) if row["found"] else "no error"
        verdict += ", then the time was over" if row["stopped"] else ""
        cells.append((name, str(len(row["operations"])), verdict))
    return table(("tool", "operations", "result"), cells)


def steps(setting: Setting, part: str, parts: dict[str, Rows]) -> list[str]:
    """Return a row for every step: its times by form, beside the machine's rates and the CPU."""
    rows, best = done(parts[part]), done(parts["rates"])
    copied = best.get("copy on the device", {}).get("bytes_per_second")
    multiplied = best.get("product, float32", {}).get("plain_flops")
    cells = []
    for name in dict.fromkeys(name.partition(" | ")[0] for name in rows):
        plain, cpu = rows.get(f"{name} | {WAYS[0]}", {}), rows.get(f"{name} | CPU", {})
        seconds = plain.get("step")
        shares = [
            f"{100 * plain[key] / seconds / rate:.1f} %" if seconds and key in plain and rate else ""
            for key, rate in (("bytes", copied), ("flops", multiplied))
        ]
        forms = [milliseconds(rows.get(f"{name} | {form}", {}), "step") for form in WAYS]
        differences = [f"{cpu['differences'][words(form)]:.1e}" if cpu else "" for form in COMPARED]
        host, launches = milliseconds(plain, "host"), str(plain.get("launches", ""))
        cells.append((name, *forms, host, launches, *shares, milliseconds(cpu, "step"), *differences))
    differs = (f"{words(form)}: differs by" for form in COMPARED)
    head = ("step, ms", *WAYS, "host", "kernels", "of copy rate", "of product rate", "CPU", *differs)
    return table(head, cells)


def milliseconds(row: dict[str, Any], key: str) -> str:
    return f"{1e3 * row[key]:.2f}" if key in row else ""


def kernels(setting: Setting, part: str, parts: dict[str, Rows]) -> list[str]:
    """Return the kernels of every step that take longest, and how much longer its graph takes than all timed kernels.

    The graph of a Transformer Grammar may hold another batch than the timed step.
    """
    rows, best, cells = done(parts[part]), done(parts["steps"]), []
    for name, row in rows.items():
        of_graph = best.get(f"{name}, a graph", {}).get("step")
        rest = f"{1e3 * (of_graph - row['seconds']):.2f}" if of_graph else ""
        first = "; ".join(f"{kernel['kernel']}: {figures(kernel)}" for kernel in row["kernels"][:SHOWN])
        cells.append((name, str(row["launches"]), milliseconds(row, "seconds"), rest, figures(row["products"]), first))
    lines = table(("step", "timed", "ms", "a graph: more, ms", "all products", "the longest"), cells)
    if rows:
        pair, empty = (1e6 * max(row[key] for row in rows.values()) for key in ("empty_pair", "empty_kernel"))
        late = sum(row["late"] for row in rows.values())
        words_of_times = f"From each time {pair:.1f} us are taken off, what timing itself takes; a kernel without work"
        lines += ["", f"{words_of_times} then takes {empty:.1f} us."]
        lines += [f"The host was late for {late} launches: their times may be too long."]
    return lines


def figures(kernel: dict[str, Any]) -> str:
    """Return the launches of a kernel, their time and, if operations are counted, their rate."""
    has_rate = kernel["flops"] and kernel["seconds"]
    rate = f", {kernel['flops'] / kernel['seconds'] * 1e-12:.3g} TFLOP/s" if has_rate else ""
    return f"{kernel['launches']} x, {milliseconds(kernel, 'seconds')} ms{rate}"


def peers(setting: Setting, part: str, parts: dict[str, Rows]) -> list[str]:
    """Return a row for every peer, with our best form in the same precision."""
    ours, cells = done(parts["steps"]), []
    for name, row in done(parts[part]).items():
        step, _, label = name.partition(" | ")
        precision = label.rpartition(", ")[2]
        same = [ours[key] for key in (f"{step} | {way}" for way in WAYS if precision in way) if key in ours]
        best = min((x["step"] for x in same), default=None)
        times = f"{row['step'] / best:.2f}" if best else ""
        cells.append((step, label, milliseconds(row, "step"), f"{1e3 * best:.2f}" if best else "", times))
    return table(("step", "peer", "peer, ms", "ours, ms", "times as fast"), cells)


def trainings(setting: Setting, part: str, parts: dict[str, Rows]) -> list[str]:
    """Return the losses at some steps, and the greatest difference from those of the CPU."""
    rows, cells = done(parts[part]), []
    for name, row in rows.items():
        losses, expected = row["losses"], rows.get(f"{name.partition(' | ')[0]} | cpu", {}).get("losses", [])
        places = sorted({0, len(losses) // 4, len(losses) // 2, len(losses) - 1})
        some_losses = ", ".join(f"{losses[i]:.4f} ({i + 1})" for i in places)
        far = max((abs(x - y) / abs(y) for x, y in zip(losses, expected, strict=False)), default=0.0)
        cells.append((name, some_losses, f"{far:.1e}" if expected else "", f"{row['took']:.1f}"))
    return table(("training", "loss (step)", "furthest from the CPU", "seconds"), cells)

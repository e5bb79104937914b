"""What a GPU report measured on one H200, beside the figures and times that were assumed and predicted before it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.gpu_counts import StepCounts
from benchmarks.gpu_time import H200, Figure, as_a_graph, as_it_is

REPORT = Path(__file__).parent / "results" / "gpu" / "h200" / "report.json"
PLAIN, FAST, GRAPH = "plain, float32", "fast, float32", "fast, float32, a graph"
FORMS = {
    "plain": PLAIN, "fast": FAST, "graph": GRAPH, "bf16": "fast, bf16", "bf16_graph": "fast, bf16, a graph",
    "tf32_graph": "fast, tf32, a graph",
}  # fmt: skip
STEPS = {
    "tg": "Transformer Grammar, PTB size, 8 random trees",
    "long": "Transformer Grammar, PTB size, 8 long trees",
    "stack": "FastTrees stack 400-1150-1150-400, 70 x 20",
    "small": "FastTrees stack 128-400, 20 x 256",
    "on_lstm": "ON-LSTM stack 400-1150-1150-400, 70 x 20",
    "small_on_lstm": "ON-LSTM stack 128-400, 20 x 256",
    "small_conv": "Conv. FastTrees stack 128-400, 20 x 256",
    "gpst64": "GPST's composition, d 64, 8 x 128 words",
    "gpst256": "GPST's composition, d 256, 8 x 128 words",
}
"""The forms and steps that the page's text names, by short names."""
TURNS = 70 * 3 * 2
"""The steps of the recurrences of the large stack: 70 words, three layers, forward and backward."""
Report = Mapping[str, Mapping[str, dict[str, Any]]]
ROWS = {
    "bytes": ("copy on the device", "bytes_per_second", "a copy of 1 GiB on the device, bytes read and written"),
    "bf16": ("product, bf16", "fast_flops", "a product of 8192^3, random numbers, by cuBLASLt"),
    "tf32": ("product, tf32", "fast_flops", "the same"),
    "float32": ("product, float32", "plain_flops", "the same by CuPy"),
    "launch": ("launch of CuPy", "seconds", "a fill by CuPy after another one; the host may take longer than the GPU"),
    "call": ("launch of our own", "host_seconds", "the host's time for a call of our operation `bias_gelu`"),
    "synchronisation": ("synchronisation", "seconds", "until the host has one number"),
}
"""The figures that the report has: their rows and keys, and how they were measured."""


def load_report(path: Path = REPORT) -> Report:
    report: Report = json.loads(path.read_text(encoding="utf-8"))
    return report


def measured(report: Report) -> dict[str, Figure]:
    """Return the figures of the machine: those of the report where it has them, else as assumed."""
    return H200 | {
        name: Figure(report["rates"][row][key], H200[name].unit, how) for name, (row, key, how) in ROWS.items()
    }


def milliseconds(report: Report, step: str, form: str, key: str = "step") -> float:
    return float(1e3 * report["steps"][f"{step} | {form}"][key])


def machine(report: Report) -> list[str]:
    """Return a row for every figure of the machine: assumed, and measured."""
    rows, ours = [], measured(report)
    for name, figure in H200.items():
        value, how = (f"{ours[name].value:.3g}", ours[name].source) if name in ROWS else ("–", "–")
        rows.append(f"| {name}, {figure.unit} | {figure.value:.3g} | {figure.source} | {value} | {how} |")
    return rows


def compared(now: dict[str, StepCounts], graph: dict[str, StepCounts], report: Report) -> list[str]:
    """Return a row for every step: its time plain and with a graph, predicted and measured."""
    rows, ours = [], measured(report)
    for name, counts in graph.items():
        cells = []
        for form, predict, of in ((PLAIN, as_it_is, now[name]), (GRAPH, as_a_graph, counts)):
            before, after = (1e3 * predict(of, figures=figures).step for figures in (H200, ours))
            measurement = milliseconds(report, name, form)
            cells += [f"{before:.2f}", f"**{measurement:.2f}**", f"{measurement / before:.1f}", f"{after:.2f}"]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return rows


def numbers(now: dict[str, StepCounts], graph: dict[str, StepCounts], report: Report) -> dict[str, str]:
    """Return the numbers of the page's text, as they are printed.

    STEP_FORM are a step's measured milliseconds. STEP_before and STEP_graph_before were predicted; STEP_after and
    STEP_graph_after follow from the measured figures.
    """
    ours, values = measured(report), dict[str, str]()
    for key, step in STEPS.items():
        values |= {f"{key}_{word}": f"{milliseconds(report, step, form):.3g}" for word, form in FORMS.items()}
        for word, figures in (("before", H200), ("after", ours)):
            values[f"{key}_{word}"] = f"{1e3 * as_it_is(now[step], figures=figures).step:.3g}"
            values[f"{key}_graph_{word}"] = f"{1e3 * as_a_graph(graph[step], figures).step:.3g}"
    scales = {name: ours[name].value / H200[name].value for name in ROWS}
    values |= {f"scale_{name}": f"{scale:.2f}" for name, scale in scales.items()}
    values["most_by_rates"] = f"{1 / min(scales[name] for name in ('bytes', 'float32', 'tf32', 'bf16')):.1f}"
    values |= of_calls(now, report) | of_slow_kernels(now, report) | of_peers(report)
    return values


def of_calls(now: dict[str, StepCounts], report: Report) -> dict[str, str]:
    """Return how long the host takes to call kernels, and how many steps wait for that, or are slower in bf16."""
    plain = {name: report["steps"][f"{name} | {PLAIN}"] for name in now if f"{name} | {PLAIN}" in report["steps"]}
    narrow = [
        name for name in plain if milliseconds(report, name, "fast, bf16") > 1.05 * milliseconds(report, name, FAST)
    ]
    grammar, long = plain[STEPS["tg"]], plain[STEPS["long"]]
    return {
        "n_steps": str(len(plain)), "n_by_host": str(sum(row["host"] > 0.95 * row["step"] for row in plain.values())),
        "n_narrow_slower": str(len(narrow)),
        "call": f"{1e6 * report['rates']['launch of our own']['host_seconds']:.0f}",
        "call_of_cupy": f"{1e6 * report['rates']['launch of CuPy']['host_seconds']:.1f}",
        "call_before": f"{1e6 * H200['call'].value:.0f}", "kernels": str(grammar["launches"]),
        "us_a_kernel": f"{1e6 * grammar['host'] / grammar['launches']:.0f}",
        "long_least": f"{1e3 * long['least']:.1f}", "long_greatest": f"{1e3 * long['greatest']:.1f}",
    }  # fmt: skip


def of_slow_kernels(now: dict[str, StepCounts], report: Report) -> dict[str, str]:
    """Return the shares of the machine's rates that a composition reaches, and the time of a step of a recurrence."""
    ours, composition = measured(report), now[STEPS["gpst256"]]
    of_step = {"products": composition.flops / ours["float32"].value, "copies": composition.bytes / ours["bytes"].value}
    whole = milliseconds(report, STEPS["gpst256"], GRAPH) / 1e3
    return {f"share_of_{name}": f"{100 * part / whole:.1f}" for name, part in of_step.items()} | {
        "n_turns": str(TURNS), "turn_before": f"{1e6 * H200['turn'].value:.0f}",
        "us_a_turn": f"{1e3 * milliseconds(report, STEPS['stack'], GRAPH) / TURNS:.0f}",
    }  # fmt: skip


def of_peers(report: Report) -> dict[str, str]:
    """Return how our best form in float32 compares with PyTorch's same step, and with cuDNN's LSTM."""
    quotients, lstm = [], {}
    for row, peer in report["peers"].items():
        step, _, label = row.partition(" | ")
        if peer["status"] == "done" and label.endswith(", float32"):
            if label.startswith("torch.nn.LSTM"):
                lstm[step] = 1e3 * peer["step"]
            else:
                best = min(milliseconds(report, step, form) for form in (PLAIN, FAST, GRAPH))
                quotients.append(1e3 * peer["step"] / best)
    padded = 1e3 * report["peers"][f"{STEPS['tg']} | PyTorch, padded, float32"]["step"]
    return {
        "peer_least": f"{min(quotients):.1f}", "peer_greatest": f"{max(quotients):.0f}", "padded": f"{padded:.1f}",
        "padded_by_plain": f"{padded / milliseconds(report, STEPS['tg'], PLAIN):.1f}",
        "lstm_large": f"{lstm[STEPS['stack']]:.1f}", "lstm_small": f"{lstm[STEPS['small']]:.1f}",
    }  # fmt: skip

"""The tables of Transformer Grammars' analyses on real trees in RESULTS.md, from the result files of the queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import hypot
from typing import Any

import numpy as np

from examples.markdown import normal, table, with_interval
from examples.queue_tables import Run
from examples.transformer_grammars import ensembles, evolution, hybrids
from examples.transformer_grammars.regressions import CONTEXTS, FREQUENCIES, PLACES
from examples.verdicts import judge

NOT_RUN = "Not run yet: `make results DATA=data`."
PAPER = dict(zip((*FREQUENCIES, *CONTEXTS), (-0.0488, -0.2419, -0.5481, -0.2871, -0.1003, -0.1340), strict=True))
"""Section 3.8: the coefficients of both regressions."""
ORDERS = {"frequency": FREQUENCIES, "copying": ("InContextCurSentence", "NotInContext", "InContextPrevSentences"),
          "stack": PLACES}  # fmt: skip
"""The cases of each regression, the best one for Transformer Grammars first: in the paper's order, but for the
regression on the stack, which is ours."""


OF_PAPER = ("frequency", "copying")


def analyses(name: str, runs: Sequence[Run]) -> str:
    """Return the table of the analysis of that name."""
    of_name = [run for run in runs if run["name"] == f"analyses/{name}"]
    return WRITTEN[name](_found(of_name[0])) if of_name else NOT_RUN


def regressions(found: dict[str, Any]) -> str:
    """Return every coefficient beside the paper's, then the differences that decide whether the paper's order holds.

    Intervals of mixtures are over terminals. Intervals and verdicts of single models are over seeds (Welch's).
    """
    rows = []
    for name, order in ORDERS.items():
        coefficients = found[name]["coefficients"]
        cases = [case for case in order if case in coefficients]
        for case in cases:
            one = coefficients[case]
            cell = with_interval(normal(one["estimate"], one["standard_error"]), 4)
            paper = f"{PAPER[case]:+.2f}" if name in OF_PAPER else ""
            rows.append((name, case, f"{one['terminals']:,}", cell, "", paper, ""))
        for one, other in pairwise(cases):
            value = coefficients[one]["estimate"] - coefficients[other]["estimate"]
            error = hypot(coefficients[one]["standard_error"], coefficients[other]["standard_error"])
            tg, txl_cc = (np.subtract(*(found[name]["means"][kind][case] for case in (one, other)))
                          for kind in ("tg", "txl_cc"))  # fmt: skip
            over_seeds, verdict = judge(tg, txl_cc, digits=4)
            judgement = (f"{PAPER[one] - PAPER[other]:+.2f}", verdict) if name in OF_PAPER else ("", "")
            cells = (with_interval(normal(value, error), 4), over_seeds, *judgement)
            rows.append((name, f"{one} minus {other}", "", *cells))
    head = ("regression", "terminals that are", "number", "TG minus TXL (CC), nats, mixtures", "single models", "paper",
            "the paper's order")  # fmt: skip
    high, medium = found["thresholds"]
    limits = f"High: a share of training terminals of at least {high:g}, medium: {medium:g}."
    absent = [f"No terminal is {case}." for name in ORDERS for case in found[name]["absent"]]
    return "\n".join([table(head, rows, n_names=2), "", " ".join([limits, *absent])])


def evolutions(found: dict[str, Any]) -> str:
    """Return the figures of every step; a result file stores the number of a step as a string."""
    figures = {model: {int(step): seeds for step, seeds in of_model.items()} for model, of_model in found.items()}
    return evolution.table_of(figures)


def mixtures(found: dict[str, Any]) -> str:
    """Return the table of mixtures and, if products were measured, the table of products."""
    products = any(row.get("product") for rows in found.values() for row in rows)
    tables = [ensembles.table_of(found), *([ensembles.product_table(found)] if products else [])]
    return "\n\nAs products:\n\n".join(tables)


WRITTEN: dict[str, Callable[[Any], str]] = {
    "regressions": regressions, "evolution": evolutions, "hybrids": hybrids.table_of, "ensembles": mixtures,
}  # fmt: skip


def _found(run: Run) -> Any:
    (figures,) = run["figures"].values()
    return figures["found"]

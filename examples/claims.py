"""The orders of FastTrees, Treeformer and the variants of TG in the papers' tables, which `examples.verdicts` judges.

Those of Transformer Grammars, Table 1, are in `result_files.PAPER`, those of GPST in `gpst_tables`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

LOWER = "perplexity", "documents", "error"
"""Measures whose lower values are the better ones, by the beginnings of their names."""


@dataclass(frozen=True)
class Claim:
    """One model before another in a measure; `tasks` are the trainings that can show it, the best first.

    With `constant`, `worse` is the title of trees that need no training, and `constant` the measure with their figure.
    """

    place: str
    better: str
    worse: str
    measure: str
    tasks: tuple[str, ...] = ()
    constant: str = ""

    @property
    def lower(self) -> bool:
        return self.measure.startswith(LOWER)


def claims(place: str, tasks: tuple[str, ...], measure: str, *pairs: tuple[str, str]) -> Iterator[Claim]:
    for better, worse in pairs:
        yield Claim(place, better, worse, measure, tasks)


def ordered(place: str, tasks: tuple[str, ...], measure: str, *models: str) -> Iterator[Claim]:
    """Yield all claims of a table with these models, the best first."""
    return claims(place, tasks, measure, *combinations(models, 2))


LOGIC = ("fasttrees/logic_published",)
CHARTS = "treeformer", "treeformer_released"
RELEASED, ON_ALBERT = ("treeformer_released", "transformer"), ("albert_treeformer", "albert")
LANGUAGE_MODELS = tuple(f"fasttrees/language_model_{n}_epochs" for n in (10, 25))
"""That of ten epochs has three seeds, the other has one."""
CLAIMS = (
    *ordered("Table 1", LANGUAGE_MODELS, "perplexity", "on_lstm", "fasttrees", "conv_fasttrees", "faster_fasttrees"),
    *ordered("Table 2, 7 to 12 operators", LOGIC, "accuracy, 7 to 12",
             "conv_fasttrees", "on_lstm", "fasttrees", "lstm", "faster_fasttrees"),
    *(claim for n in ("10", "11", "12", "10 to 12")
      for claim in claims(f"Table 2, {n} operators", LOGIC, f"accuracy, {n}", ("conv_fasttrees", "fasttrees"),
                          ("conv_fasttrees", "on_lstm"))),
    *ordered("Table 3", ("fasttrees/sentiment",), "accuracy",
             "fasttrees", "conv_fasttrees", "on_lstm", "lstm", "faster_fasttrees"),
    *ordered("Table 4", ("fasttrees/inference",), "accuracy",
             "conv_fasttrees", "lstm", "fasttrees", "on_lstm", "faster_fasttrees"),
    *ordered("Table 5", ("fasttrees/translation",), "BLEU, best", "fasttrees", "conv_fasttrees", "transformer"),
    *claims("Table 6, agreement", ("fasttrees/agreement",), "accuracy, all", ("conv_fasttrees", "transformer"),
            ("conv_fasttrees", "fasttrees")),
    *ordered("Table 6, arithmetic", ("fasttrees/arithmetic",), "accuracy",
             "fasttrees", "conv_fasttrees", "transformer"),
    *(claim for text in ("WSJ10", "WSJ")
      for claim in (*claims(f"Table 7, {text}", LANGUAGE_MODELS, f"F1, {text}, layer 2", ("on_lstm", "fasttrees")),
                    *(Claim(f"Table 7, {text}", model, "right-branching trees", f"F1, {text}, layer 2",
                            LANGUAGE_MODELS, f"F1, {text}, right") for model in ("on_lstm", "fasttrees")))),
    *claims("Table 1", ("treeformer/translation",), "BLEU, best", ("treeformer", "transformer"), RELEASED),
    *claims("Table 2, ROUGE-1", ("treeformer/summarisation",), "ROUGE, 1", RELEASED),
    *claims("Table 3, CoLA", ("treeformer/glue_cola",), "matthews", ON_ALBERT),
    *claims("Table 3, SST-2", ("treeformer/glue_sst2",), "accuracy", ON_ALBERT),
    *claims("Table 4, COGS", ("treeformer/cogs_30000_steps",), "accuracy, gen",
            ("treeformer", "transformer")),
    *claims("Table 4, CoGnition", ("treeformer/cognition",), "error, instances", RELEASED),
    *(claim for n in (1, 2)
      for claim in claims(f"Figure 4, encoder layers: {n}", ("treeformer/sizes",), "accuracy, test",
                          *((f"{chart}-{n}-10", f"transformer-{n}") for chart in CHARTS))),
)  # fmt: skip
VARIANT_PAIRS = (
    ("tg_distinct", "tg"), ("tg_distinct", "tg_shift"), ("tg_distinct", "tg_linear"), ("tg", "tg_linear"),
    ("tg_shift", "tg_linear"),
)  # fmt: skip
"""Pairs of variants in Table 2, the better one on the Penn Treebank first; tg and tg_shift are equal there."""

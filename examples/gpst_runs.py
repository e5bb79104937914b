"""The GPSTs that `examples.queue` trains on Standard Ebooks, and the GPT-2 beside each, for Tables 3 and 4.

As in the paper, trees are those of a model that is trained further on the words of the Penn Treebank, each sentence by
itself; the pre-trained one judges sentences.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from examples.language_model_runs import WSJ
from examples.queue_commands import Run, of_text, of_trees, options_of, settings, train

TABLE = "GPST, Tables 3 and 4"
GOLD = {"wsj": WSJ, "tg_example": of_trees("tg_example")[2]}
"""Gold trees that induced trees are compared with."""


@dataclass(frozen=True)
class Size:
    """How a GPST and a GPT-2 of one size are trained."""

    words: str  # of the pre-training
    recipe: dict[str, object]
    of_gpt2: dict[str, object]
    steps: int
    induction_steps: int
    seconds: dict[str, float]  # of a step of the pre-trainings, and of the induction
    measured: dict[str, float]  # hours that `examples.gpst.measure` takes, and the reading of the text


# The small size is that of examples/gpst, with its recipe. Steps were chosen by their time: a million tokens of each
# text, so that a GPST takes half a core hour, measuring included, and a GPT-2 a tenth. The small GPT-2 has as many
# parameters as the GPST (1.93 and 1.97 million), the larger one as many layers. "Longer" is the small size with almost
# thirteen million tokens of prose, about as many as the larger models see.
SMALL = Size(
    "--vocabulary-size 4000 --max-tokens 256 --batch-size 4",
    {"d_model": 128, "n_heads": 4, "type_layers": 1, "token_layers": 2, "d_compose": 64, "dropout": 0,
     "network_dropout": 0, "maximum_rate": 2e-3, "validate_every": 500},
    {"token_layers": 6}, 1000, 800, {"gpst": 0.47, "induction": 0.58, "gpt2": 0.18}, {"gpst": 0.25, "gpt2": 0.05},
)  # fmt: skip
SIZES = {
    "gpst_small": SMALL,
    "gpst_longer": replace(SMALL, steps=12_500, recipe=SMALL.recipe | {"validate_every": 1250}),
    "gpst": Size(
        "--max-tokens 512 --batch-size 4", {"maximum_rate": 1e-3, "validate_every": 500}, {}, 6300, 1314,
        {"gpst": 2.5, "induction": 1.2, "gpt2": 0.9}, {"gpst": 0.5, "gpt2": 0.1},
    ),
}  # fmt: skip


def gpst(model: str, seed: int = 0, size: str = "gpst") -> Run:
    of_size = SIZES[size]
    files, induced = of_text("standard_ebooks", "{}"), of_text("ptb_lm", "ptb.{}")[:2]
    suites, pairs = "{data}/syntaxgym/test_suites_json.tar.xz", "{data}/blimp/blimp_data.tar.xz"
    reading = f"--sentence-a-line --long-sentences cut --cache {{runs}}/{size}/cache"
    more = of_size.of_gpt2 if model == "gpt2" else {}
    recipe = settings(checkpoint_every=100, **(of_size.recipe | more))
    words = f"--task gpst --model {model} --seed {seed} {reading} {of_size.words}"
    commands = train(f"{words} --steps {of_size.steps} {options_of(files)} {recipe}")
    measure = (
        f"examples.gpst.measure --checkpoint {{run}} --suites {suites} --blimp {pairs} --out {{run}}/measured.json"
    )
    hours, data = of_size.steps * of_size.seconds[model] / 3600 + of_size.measured[model], (suites, pairs)
    if model == "gpst":
        recipe = settings(maximum_rate=1e-3, validate_every=of_size.induction_steps // 2, checkpoint_every=100)
        commands += (
            f"accel.cli train --resume --out {{run}}/induction --task gpst --checkpoint {{run}} --seed {seed} "
            f"{reading} --steps {of_size.induction_steps} {options_of(induced)} {recipe}",
        )
        measure += "".join(f" --gold {name}={path}" for name, path in GOLD.items()) + " --induction {run}/induction"
        hours += of_size.induction_steps * of_size.seconds["induction"] / 3600
        data = (*induced, *GOLD.values(), *data)
    return Run(f"{size}/{model}-{seed}", TABLE, hours, (*commands, measure), (*files, *data),
               ("treebanks",) if model == "gpst" else (), seed,
               ("{run}/evaluation.json", "{run}/measured.json"))  # fmt: skip


ABLATION_SEEDS = range(5)  # F1 differs by tens of points from seed to seed: three of them show little


def ablations(seed: int) -> Run:
    """Return the run that trains GPST, GPST without each of its parts, and GPT-2 on generated English."""
    command = f"examples.gpst.ablations --seed {seed} --out {{run}}"
    return Run(f"gpst_generated/ablations-{seed}", TABLE, 0.5, (command,), seed=seed, figures=("{run}/figures.json",))


def one_tree(size: str, seed: int) -> Run:
    """Return the run that measures how much of a GPST's perplexity is due to counting one tree."""
    needs, text = tuple(f"{size}/{model}-{seed}" for model in ("gpst", "gpt2")), of_text("standard_ebooks", "{}")[2]
    models = " ".join(f"--{model} {{runs}}/{run}" for model, run in zip(("gpst", "gpt2"), needs, strict=True))
    command = f"examples.gpst.one_tree {models} --text {text} --out {{run}}/one_tree.json"
    return Run(f"{size}/one_tree-{seed}", TABLE, 0.1, (command,), (text,), needs, seed, ("{run}/one_tree.json",))

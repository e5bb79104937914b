"""The runs of `examples.queue --backend cuda`: those that are long without a GPU, the most important first.

Hours are predicted from SECONDS; none of these runs is complete yet.
"""

from __future__ import annotations

from dataclasses import replace

from examples.gpst_runs import SIZES, gpst
from examples.language_model_runs import LANGUAGE_MODELS, language_model
from examples.queue_commands import SEEDS, Run, of_trees, settings, train, trees
from examples.queue_runs import CELLS, GRAMMARS, LOGIC_STEPS, TREEBANKS, cogs, logic

GRAMMAR_STEPS = 20_000
LANGUAGE_MODEL_STEPS = LANGUAGE_MODELS["medium"].epochs * 1382
TRAINS, OTHERS = "accel.cli train", ("accel.cli", "examples.gpst.measure")
SECONDS = {"logic": 0.01, "language_model": 0.01, "cogs": 0.02, "grammar": 0.04, "gpst": 0.3}
"""Seconds of a training step. A grammar's was measured on an H200 (benchmarks/results/gpu/h200), with fast kernels and
without a graph. This is the host's time for the calls, with 8 trees; a run has 64, so the device may need longer."""


def grammar(model: str, seed: int) -> Run:
    """Return the training of a Transformer Grammar of the paper's PTB size on the union of the free treebanks."""
    recipe = settings(warmup_steps=2000, validate_every=1000, checkpoint_every=500)
    words = f"--model {model} --configuration ptb --vocabulary sentencepiece --vocabulary-size 8000"
    return Run(
        f"ptb_size/{model}-{seed}", "Transformer Grammars, PTB size", 0.0,
        train(f"{words} --steps {GRAMMAR_STEPS} --seed {seed} {trees('union')} {recipe}"), of_trees("union"),
        ("treebanks",), seed,
    )  # fmt: skip


def on_gpu(run: Run, hours: float) -> Run:
    """Return the run with its trainings and evaluations on a GPU."""
    return replace(run, commands=tuple(command + options(command) for command in run.commands), hours=hours)


def options(command: str) -> str:
    """Return the options that make a command run on a GPU."""
    if command.startswith(TRAINS):
        return " --backend cuda --kernels fast"
    return " --backend cuda" if command.startswith(OTHERS) else ""


GPU_RUNS = (
    *(on_gpu(logic(kind, seed), LOGIC_STEPS * SECONDS["logic"] / 3600) for seed in SEEDS for kind in CELLS),
    *(on_gpu(cogs(kind, seed), 30_000 * SECONDS["cogs"] / 3600)
      for seed in SEEDS for kind in ("transformer", "treeformer")),
    *(on_gpu(language_model(kind, 0), LANGUAGE_MODEL_STEPS * SECONDS["language_model"] / 3600)
      for kind in LANGUAGE_MODELS["medium"].hours),
    TREEBANKS,
    *(on_gpu(grammar(model, seed), GRAMMAR_STEPS * SECONDS["grammar"] / 3600) for seed in SEEDS for model in GRAMMARS),
    *(on_gpu(gpst(model), (SIZES["gpst"].steps + SIZES["gpst"].induction_steps) * SECONDS["gpst"] / 3600)
      for model in ("gpst", "gpt2")),
)  # fmt: skip

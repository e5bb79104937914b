"""The runs of `examples.queue --backend cuda`: those that are long without a GPU, in the order of their worth.

Hours are predicted, from the steps of benchmarks/gpu_model.md: nobody has made these runs yet.
"""

from __future__ import annotations

from dataclasses import replace

from examples.queue_commands import SEEDS, Run, of_trees, settings, train, trees
from examples.queue_runs import CELLS, GRAMMARS, LOGIC_STEPS, SIZES, TREEBANKS, cogs, gpst, logic

GRAMMAR_STEPS = 20_000
ON_A_BACKEND = ("accel.cli", "examples.gpst.measure")
SECONDS = {"logic": 0.01, "cogs": 0.02, "grammar": 0.03, "gpst": 0.3}
"""Of a step."""


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
    added = {True: " --backend cuda", False: ""}
    commands = tuple(f"{command}{added[command.startswith(ON_A_BACKEND)]}" for command in run.commands)
    return replace(run, commands=commands, hours=hours)


GPU_RUNS = (
    *(on_gpu(logic(kind, seed), LOGIC_STEPS * SECONDS["logic"] / 3600) for seed in SEEDS for kind in CELLS),
    *(on_gpu(cogs(kind, seed), 30_000 * SECONDS["cogs"] / 3600)
      for seed in SEEDS for kind in ("transformer", "treeformer")),
    TREEBANKS,
    *(on_gpu(grammar(model, seed), GRAMMAR_STEPS * SECONDS["grammar"] / 3600) for seed in SEEDS for model in GRAMMARS),
    *(on_gpu(gpst(model), (SIZES["gpst"].steps + SIZES["gpst"].induction_steps) * SECONDS["gpst"] / 3600)
      for model in ("gpst", "gpt2")),
)  # fmt: skip

"""The small runs of `examples.queue --small`: every task of FastTrees and Treeformer that free data allow, three seeds.

A run takes seconds to seventeen minutes of one core, so that every model has three seeds; the paper's sizes and steps
stand beside ours in RESULTS.md. The tasks are listed in the order in which they are run.
"""

from __future__ import annotations

from itertools import product

from examples.queue_commands import SEEDS, Run, of_text, options_of, settings, train
from examples.task_tables import BLOCKS, CELLS

CHARTS = ("treeformer", "treeformer_released")
TINY = settings(
    d_model=64, d_ff=256, warmup_steps=20, maximum_rate=2e-3, label_smoothing=0, keep_checkpoints=0, dropout=0,
    attention_dropout=0, relu_dropout=0,
)  # fmt: skip
"""Of the Transformers of examples.fasttrees.transformer."""
CLASSIFIER = settings(
    embedding_size=64, hidden_size=64, chunk_size=8, mlp_size=64, dropout=0.2, maximum_rate=2e-3, least_rate=2e-4
)


def small(task: str, model: str, seed: int, hours: float, data: tuple[str, ...], words: str, *more: str) -> Run:
    """Return the run that trains a model with the options `words` of `grove train`, then runs the commands `more`."""
    command = f"--task {task.split('/')[1]} --model {model} --seed {seed} {words}"
    return Run(f"{task}/{model}-{seed}", task, hours, (*train(command), *more), data, seed=seed, task=task, model=model)


def of_splits(folder: str) -> tuple[str, ...]:
    """Return the files of a folder of data for training, validation and test."""
    return tuple(f"{{data}}/{folder}/{split}.txt.xz" for split in ("train", "dev", "test"))


def inference(model: str, seed: int) -> Run:
    files = of_splits("sick")
    words = f"{options_of(files)} --epochs 20 --batch-size 64 {CLASSIFIER}"
    return small("fasttrees/inference", model, seed, 0.01, files, words)


def sentiment(model: str, seed: int) -> Run:
    files = of_splits("sst")
    words = f"{options_of(files)} --no-phrases --epochs 10 --batch-size 64 {CLASSIFIER}"
    return small("fasttrees/sentiment", model, seed, 0.01, files, words)


def agreement(model: str, seed: int) -> Run:
    files = ("{data}/sva/derived_craft.tsv.xz",)
    words = f"--data {files[0]} --steps 600 --batch-size 64 {TINY} --set validate_every=50"
    return small("fasttrees/agreement", model, seed, 0.01, files, words)


def arithmetic(model: str, seed: int) -> Run:
    words = f"--problems 50000 --steps 250 --batch-size 1024 {TINY} --set validate_every=125"
    return small("fasttrees/arithmetic", model, seed, 0.002, (), words)


def translation(model: str, seed: int) -> Run:
    stems = (("train", "train"), ("validation", "val"), ("test", "test_2017_mscoco"))
    files = tuple(f"{{data}}/multi30k/{stem}.lc.norm.tok.{end}.xz" for _, stem in stems for end in ("de", "en"))
    options = " ".join(f"--{name}-stem {stem}.lc.norm.tok" for name, stem in stems)
    words = (
        f"--data {{data}}/multi30k --source de --target en {options} --vocabulary bpe --vocabulary-size 4000 "
        "--size tiny --steps 2000 --batch-size 2048 "
        + settings(warmup_steps=200, maximum_rate=2e-3, validate_every=250)
    )
    paper = "treeformer" if model in CHARTS else "fasttrees"
    return small(f"{paper}/translation", model, seed, 0.14, files, words)


def head_final(model: str, seed: int) -> Run:
    """Return a run of examples.treeformer.head_final; a model of trees is compared with those of the grammar, too."""
    command = f"examples.treeformer.head_final --models {model} --seed {seed} --steps 1500 --out {{run}}"
    trees = (
        f"accel.cli induction --checkpoint {{run}}/{model} --gold {{run}}/data/test.trees --convention plain "
        "--out {run}/induction.json"
    )
    commands = (command, trees) if model == "treeformer" else (command,)
    task = "treeformer/head_final"
    return Run(f"{task}/{model}-{seed}", task, 0.015, commands, seed=seed, task=task, model=model,
               figures=("{run}/figures.json", "{run}/induction.json"))  # fmt: skip


def sizes(seed: int) -> Run:
    """Return Figure 4 and the ablation of H with one seed: one program makes all models."""
    task = "treeformer/sizes"
    command = f"examples.{task.replace('/', '.')} --depths 1 2 --heights 1 0 --steps 600 --test 200"
    return Run(f"{task}-{seed}", task, 0.07, (f"{command} --first-seed {seed} --seeds 1 --out {{run}}",), seed=seed,
               figures=("{run}/sizes.json",))  # fmt: skip


PRETRAINED = Run(
    "treeformer/albert_pretraining/albert-0", "treeformer/albert_pretraining", 0.3,
    train(f"--task masked_words {options_of(of_text('standard_ebooks', '{}'))} --vocabulary-size 4000 "
          "--steps 10000 " + settings(batch_size=2048, n_layers=2)),
    of_text("standard_ebooks", "{}"), task="treeformer/albert_pretraining", model="albert",
)  # fmt: skip
GLUE = {"sst2": "{data}/sst", "cola": "{data}/cola/cola_public.zip"}


def glue(name: str, model: str, seed: int) -> Run:
    """Return the tuning of the small ALBERT on a set of GLUE."""
    words = (
        f"--task glue --name {name} --data {GLUE[name]} --model {model} --checkpoint {{runs}}/{PRETRAINED.name} "
        f"--seed {seed} --steps 3000 " + settings(maximum_rate="5e-4", validate_every=500)
    )
    task = f"treeformer/glue_{name}"
    return Run(f"{task}/{model}-{seed}", task, 0.025, train(words), (GLUE[name],), needs=(PRETRAINED.name,),
               seed=seed, task=task, model=model)  # fmt: skip


SMALL_RUNS = (
    *(inference(model, seed) for model, seed in product(CELLS, SEEDS)),
    *(sentiment(model, seed) for model, seed in product(CELLS, SEEDS)),
    *(agreement(model, seed) for model, seed in product(BLOCKS, SEEDS)),
    *(arithmetic(model, seed) for model, seed in product(BLOCKS, SEEDS)),
    *(run for seed in reversed(SEEDS) for run in (
        sizes(seed),
        *(head_final(model, seed) for model in ("transformer", "treeformer", "transformer_deeper")),
        *(translation(model, seed) for model in (*BLOCKS, *CHARTS)),
    )),
    PRETRAINED,
    *(glue(name, model, seed) for name, seed in product(GLUE, SEEDS) for model in ("albert", "albert_treeformer")),
)  # fmt: skip

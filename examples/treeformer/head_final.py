"""Translation into a language whose heads come last, by Transformers and a Treeformer: a few minutes.

    python -m examples.treeformer.head_final

Sources are generated English without full stops. A target has the same words, but the parts of a VP, PP or SBAR, and an
NP and its modifier, are in the opposite order: "the dog behind many horses sees the girls that he likes" becomes "many
horses behind the dog he likes that the girls sees". So the translation depends on the phrases. Training has no subject
with a modifier within a modifier (`accel.data.generated.grammar.CONSTRUCTIONS`): the accuracy on these sentences is
measured for each construction.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

import accel
from accel.data.batches.sequence_pairs import load_parallel, pair_batches
from accel.data.generated.grammar import CONSTRUCTIONS, ENGLISH, minimal_pairs
from accel.tasks.encoder_decoder import sequence_accuracy
from accel.tasks.numbers import at_least
from accel.trained.opening import Model, open_model
from accel.training.directory import write_text
from examples.commands import FIGURES, finish, grove, set_options, table
from examples.program import run_program
from refimpl.trees import Tree, words

MODELS: dict[str, tuple[str, tuple[str, ...]]] = {  # --model and more settings
    "Transformer": ("transformer", ()),
    "Transformer, deeper": ("transformer", ("n_encoder_layers=3",)),
    "Treeformer": ("treeformer", ()),
}
SETTINGS = (
    *("d_model=64", "d_ff=128", "n_layers=2", "n_heads=4", "max_height=10", "keep_checkpoints=0"),
    *("warmup_steps=100", "maximum_rate=2e-3", "label_smoothing=0"),
    *("dropout=0", "attention_dropout=0", "relu_dropout=0"),
)
SENTENCE = "the dog behind many small horses sees the girls"
N_VALIDATION = 500
TURNED = ("VP", "PP", "SBAR")


def head_final(tree: Tree) -> list[str]:
    """Return the words of a tree with every head after its dependents; coordinations stay as they are.

    Examples
    --------
    >>> pp = Tree("PP", ("behind", Tree("NP", ("many", "horses"))))
    >>> subject = Tree("NP", (Tree("NP", ("the", "dog")), pp))
    >>> " ".join(head_final(Tree("S", (subject, Tree("VP", ("sees", Tree("NP", ("him",))))))))
    'many horses behind the dog him sees'
    """
    children = tree.children
    modified = tree.label == "NP" and isinstance(children[0], Tree)
    if (tree.label in TURNED or modified) and "and" not in children:
        children = children[::-1]
    return [word for child in children for word in (head_final(child) if isinstance(child, Tree) else [child])]


def write_pairs(folder: Path, stem: str, trees: Iterable[Tree]) -> None:
    """Write sources, targets and trees, all without the full stop that ends every tree."""
    bare = [Tree(tree.label, tree.children[:-1]) for tree in trees]
    for ending, lines in (
        ("english", (" ".join(words(tree)) for tree in bare)),
        ("final", (" ".join(head_final(tree)) for tree in bare)),
        ("trees", map(str, bare)),
    ):
        (folder / f"{stem}.{ending}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def accuracy(ops: ModuleType, model: Model, folder: Path, stem: str) -> float:
    """Return the share of sentences whose translation is right to the last word."""
    pairs = load_parallel(folder / f"{stem}.english", folder / f"{stem}.final", model.vocabulary)
    return sequence_accuracy(ops, model.config, model.parameters, pair_batches(pairs, 4096, ops=ops))


def evaluate(ops: ModuleType, model: Model, folder: Path) -> dict[str, float]:
    """Return the accuracy on test sentences, on the kinds of subjects of training, and on each new kind."""
    accuracies = {name: accuracy(ops, model, folder, name) for name in ("test", *CONSTRUCTIONS)}
    known_subjects = [accuracies[name] for name, held_out in CONSTRUCTIONS.items() if not held_out]
    new = {name.replace("_", " "): accuracies[name] for name, held_out in CONSTRUCTIONS.items() if held_out}
    return {"test": accuracies["test"], "known subjects": sum(known_subjects) / len(known_subjects), **new}


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Generate, train, translate, parse, draw; return the accuracy of every model by construction."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.treeformer.head_final", description="translation that depends on phrases"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/treeformer/head_final"))
    parser.add_argument("--sentences", type=at_least(1), default=20_000, help="to train on")
    parser.add_argument("--test", type=at_least(1), default=500, help="sentences to test on, and of every construction")
    parser.add_argument("--steps", type=at_least(1), default=1500)
    parser.add_argument("--seed", type=at_least(0), default=0, help="of the models; the sentences are always the same")
    names = {run_name(title): title for title in MODELS}
    parser.add_argument("--models", choices=names, nargs="+", default=list(names), help="default: all of them")
    options = parser.parse_args(arguments)
    data = options.out / "data"
    write_data(data, options.sentences, options.test)
    ops, figures = accel.load("cpu"), {}
    interval = ("--set", f"validate_every={max(1, options.steps // 5)}")
    sizes = ("--steps", options.steps, "--batch-size", 1024, "--seed", options.seed, *set_options(SETTINGS), *interval)
    for name in options.models:
        run, title = options.out / name, names[name]
        kind, settings = MODELS[title]
        extra = set_options(settings)
        grove("train", *data_options(data), "--model", kind, "--out", run, "--resume", *sizes, *extra)
        figures[title] = evaluate(ops, open_model(ops, run), data)
    if kind == "treeformer":
        source = options.out / "sentence.txt"
        source.write_text(f"{SENTENCE}\n", encoding="utf-8")
        grove("translate", "--checkpoint", run, source)
        grove("parse", "--checkpoint", run, "--gold", data / "test.trees", "--convention", "plain")
        for picture in ("chart", "parse"):
            grove("draw", picture, SENTENCE, "--checkpoint", run, "--out", options.out / f"{picture}.svg")
    print(f"\nSentences translated right to the last word, in %:\n\n{table(figures, list(figures[title]))}")
    if len(options.models) == len(MODELS):
        finish(__file__, figures, options.out)
    else:
        write_text(options.out / FIGURES, json.dumps(figures, indent=1) + "\n")
    return figures


def run_name(title: str) -> str:
    """Return the name of a model's run.

    Examples
    --------
    >>> [run_name(title) for title in MODELS]
    ['transformer', 'transformer_deeper', 'treeformer']
    """
    return title.lower().replace(", ", "_")


def data_options(folder: Path) -> list[str]:
    """Return the options of `grove train` for the files of `write_data`."""
    stems = ("--train-stem", "train", "--validation-stem", "dev", "--test-stem", "test")
    ends = ("--source", "english", "--target", "final", "--vocabulary", "words")
    return ["--task", "translation", "--data", str(folder), *ends, *stems]


def write_data(folder: Path, n_train: int, n_test: int) -> None:
    """Write the sentences to train on, those for validation and test, and test sentences of every construction."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (stem, size) in enumerate({"train": n_train, "dev": N_VALIDATION, "test": n_test}.items(), 1):
        write_pairs(folder, stem, ENGLISH.sample(size, seed))
    for name in CONSTRUCTIONS:
        write_pairs(folder, name, (pair.tree for pair in minimal_pairs(name, n_test, seed=4)))


if __name__ == "__main__":
    run_program(main)

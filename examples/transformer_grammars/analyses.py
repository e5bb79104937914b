"""Functions that the analyses share: sentences for training and test, runs that are made once, results, tables.

By default the sentences are generated English, whose lowest perplexity is known; with --data they are real trees.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

import accel
from accel.data.batches.trees import Batches
from accel.data.corpora.proposals import Proposals, read_proposals
from accel.data.corpora.sequences import encode_sentences, read_whole
from accel.data.corpora.treebank import Corpus, Reading, Sentence, encode_trees, load_corpus, survey
from accel.data.generated.grammar import CONSTRUCTIONS, ENGLISH, minimal_pairs, proposals
from accel.data.published.syntax_suites import read_suite, suite_files
from accel.data.vocabularies.building import build
from accel.data.vocabularies.vocabulary import Vocabulary, VocabularyError
from accel.drawing.svg import Picture, save
from accel.evaluation.significance import Interval, bootstrap_interval
from accel.evaluation.syntaxgym import LEFT_OUT, accuracy, means, suite_outcomes
from accel.models.transformer_grammars import model as transformer_grammar
from accel.scoring.trees import of_words, tree_logps
from accel.trained.opening import Model, open_model
from accel.training.directory import VOCABULARY, digest, save_settings, write_text
from accel.training.loop import TrainingConfig, train
from accel.training.run import METRICS
from examples.provenance import commit, digests, machine
from examples.transformer_grammars.train import split_files
from refimpl.transformer_grammars.marginal import perplexity, sentence_logp
from refimpl.trees import Tree, actions, words

HELD_OUT = tuple(name for name, held_out in CONSTRUCTIONS.items() if held_out)
GENERATED = "generated English"
PAIRS_SEED = 3
Figures = dict[str, Any]


@dataclass(frozen=True)
class Data:
    """The data for training and test."""

    name: str  # the source that an error names if a tree cannot be read
    reading: Reading
    vocabulary: Vocabulary
    train: Corpus
    valid: Corpus
    proposals: Proposals  # of every test sentence
    pairs: list[Tree]  # a tree that agrees, one that does not, ...
    sources: dict[str, str]  # digests


@dataclass(frozen=True)
class Judge:
    """Test sentences with their proposals, and pairs, as one corpus for both measures."""

    groups: Proposals
    corpus: Corpus
    sizes: list[int]  # of the groups and the pairs, whose trees have common prefixes

    def found(self, logps: Sequence[float]) -> dict[str, float]:
        """Return the perplexity, of trees an upper bound, and the share of pairs whose right tree is preferred."""
        ends = list(accumulate(map(len, self.groups)))
        groups = zip(self.groups, ends, strict=True)
        sentences = [sentence_logp(logps[end - len(group) : end]) for group, end in groups]
        n_words = sum(len(words(group[0].tree)) for group in self.groups)
        right = [a > b for a, b in zip(logps[ends[-1] :: 2], logps[ends[-1] + 1 :: 2], strict=True)]
        return {"perplexity": perplexity(sentences, n_words)} | ({"agreement": mean(right)} if right else {})


def parser_of(
    program: str, description: str | None, *, suites: bool = False, **defaults: Any
) -> argparse.ArgumentParser:
    """Return a parser with the options of all analyses, those of suites if asked for, and the defaults of a program."""
    parser = argparse.ArgumentParser(
        prog=f"python -m examples.transformer_grammars.{program}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("runs") / program, help="runs, results, table and picture")
    parser.add_argument("--data", type=Path, nargs="+", help="real trees: a directory with train.*, valid.*, test.*")
    parser.add_argument("--keep-tags", action="store_true", help="keep the tags of real trees")
    parser.add_argument("--vocabulary-size", type=int, default=4000, help="of real trees")
    parser.add_argument("--proposals", type=Path, help="trees of the real test sentences, blank lines between them")
    if suites:
        parser.add_argument("--suites", type=Path, nargs="+", default=[], help="SyntaxGym's: files, folders, archives")
        parser.add_argument("--beam", type=int, help="parses kept of a sentence of the suites (default: the model's)")
        parser.add_argument("--parser", type=Path, help="a span parser, whose proposals replace the search of suites")
    numbers = {
        "sentences": (20_000, "generated sentences to train on"),
        "test": (200, "test sentences; 0: all real ones"),
        "changed": (10, "proposals of a generated sentence"),
        "pairs": (100, "minimal pairs of each held-out construction; 0: none"),
        "steps": (300, "of every model"),
        "batch-size": (32, "trees read side by side in training"),
        "d-model": (64, None), "layers": (3, None), "heads": (4, None),
        "length": (64, "of a segment and of the memory"),
        "seeds": (3, "models of every kind"),
    }  # fmt: skip
    for name, (value, help_text) in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=help_text)
    for name, value in {"rate": 3e-3, "dropout": 0.0}.items():
        parser.add_argument(f"--{name}", type=float, default=value)
    parser.add_argument("--backend", choices=accel.BACKENDS, default="cpu")
    parser.set_defaults(**defaults)
    return parser


def read_data(options: argparse.Namespace) -> Data:
    """Return generated English, or the real trees that --data names."""
    return _real(options) if options.data else _generated(options)


def _generated(options: argparse.Namespace) -> Data:
    sizes = (("train", options.sentences), ("valid", 300), ("test", options.test))
    trees = {name: list(ENGLISH.sample(size, seed)) for seed, (name, size) in enumerate(sizes, 1)}
    pairs = pair_trees(options.pairs)
    vocabulary = build([*trees["train"], *trees["valid"], *trees["test"], *pairs])  # of few sentences, all words
    groups = [proposals(tree, options.changed, seed=number) for number, tree in enumerate(trees["test"])]
    return Data(
        GENERATED,
        Reading(),
        vocabulary,
        encode_trees(trees["train"], vocabulary),
        encode_trees(trees["valid"], vocabulary),
        [[Sentence(tree, 0, number) for tree in group] for number, group in enumerate(groups)],
        pairs,
        {f"generated {name}": digest_of(map(str, part)) for name, part in trees.items()},
    )


def _real(options: argparse.Namespace) -> Data:
    files = split_files(options.data)
    reading = Reading(drop_traces=True, drop_function_tags=True, drop_preterminals=not options.keep_tags)
    trees = (sentence.tree for sentence in read_whole(files["train"], reading))
    vocabulary = build(trees, "unknown_classes", options.vocabulary_size)
    train_corpus, valid = (
        load_corpus(files[split], vocabulary, options.out / "cache", reading) for split in ("train", "valid")
    )
    path, groups = test_proposals(files["test"], options, reading)
    sources = digests([*files.values(), *([options.proposals] if options.proposals else [])])
    pairs = readable_pairs(vocabulary, options.pairs)
    return Data(str(path), reading, vocabulary, train_corpus, valid, groups, pairs, sources)


def test_proposals(path: Path, options: argparse.Namespace, reading: Reading) -> tuple[Path, Proposals]:
    """Return the file and the trees of the first test sentences: those of --proposals, or the gold trees alone."""
    if options.proposals is not None:
        path = options.proposals
        has_tags = survey(path, reading).tagged == 1  # those of our parser have none
        reading = replace(reading, drop_preterminals=reading.drop_preterminals and has_tags)
        groups = read_proposals(path, reading)
    else:
        groups = [[sentence] for sentence in read_whole(path, reading)]
    return path, groups[: options.test or None]


def pair_trees(count: int) -> list[Tree]:
    """Return `count` pairs of every held-out construction: the tree that agrees, the one that does not, ..."""
    pairs = [pair for name in HELD_OUT if count for pair in minimal_pairs(name, count, seed=PAIRS_SEED)]
    return [tree for pair in pairs for tree in (pair.tree, pair.wrong_tree)]


def readable_pairs(vocabulary: Vocabulary, count: int) -> list[Tree]:
    """Return the pairs whose words and labels are all in a vocabulary of other trees; print their number."""
    trees = pair_trees(count)
    pairs = zip(trees[::2], trees[1::2], strict=True)
    readable = [pair for pair in pairs if all(_has(vocabulary, tree) for tree in pair)]
    print(f"agreement: the vocabulary has all words and labels of {len(readable)} of {len(trees) // 2} pairs")
    return [tree for pair in readable for tree in pair]


def _has(vocabulary: Vocabulary, tree: Tree) -> bool:
    try:
        return vocabulary.decode(vocabulary.encode(tree)) == actions(tree)
    except VocabularyError:
        return False


def judge(data: Data, terminals: bool) -> Judge:
    """Return the corpus for models of trees, or for models of terminals, which need one tree for the words."""
    groups = [group[:1] for group in data.proposals] if terminals else data.proposals
    flat = [sentence for group in groups for sentence in group]
    flat += [Sentence(tree, 0, 0) for tree in data.pairs]
    sizes = [*map(len, groups), *[2] * (len(data.pairs) // 2)]
    return Judge(groups, encode_sentences(data.name, flat, data.vocabulary), sizes)


def measure(ops: ModuleType, model: Model, data: Data, options: argparse.Namespace) -> dict[str, float]:
    """Return perplexity, agreement and, with --suites, the mean of the suites' accuracies."""
    judge_of_model = judge(data, of_words(model))
    figures = judge_of_model.found(list(tree_logps(ops, [model], judge_of_model.corpus, groups=judge_of_model.sizes)))
    return figures | (suite_score(ops, model, options) if options.suites else {})


def suite_score(ops: ModuleType, model: Model, options: argparse.Namespace, **ensemble: Any) -> dict[str, float]:
    """Return the mean over the paper's suites, and the number of skipped items; `ensemble` adds other models."""
    suites = [read_suite(path) for source in options.suites for path in suite_files(source)]
    search: dict[str, Any] = dict(ensemble)
    if options.parser is not None and not of_words(model):
        search["parser"] = open_model(ops, options.parser)
    elif options.beam is not None and not of_words(model):
        search["beam"] = options.beam
    outcomes = suite_outcomes(ops, model, suites, **search)
    score = means({suite: accuracy(items) for suite, items in outcomes.items()}, LEFT_OUT).over_suites
    if score is None:
        raise ValueError(f"{model.path}: no item of the suites can be read")
    return {"SG": score, "skipped": sum(bool(outcome.skipped) for items in outcomes.values() for outcome in items)}


def trained(
    ops: ModuleType, options: argparse.Namespace, data: Data, name: str, seed: int, keep: int = 0, **config: Any
) -> Path:
    """Train a model, or resume its training, and return its directory; `config` has its special settings."""
    directory: Path = options.out / f"{name}-{seed}"
    period = max(1, options.steps // 10)
    sizes = {"d_model": options.d_model, "d_ff": 4 * options.d_model, "n_layers": options.layers}
    lengths = {"segment_length": options.length, "memory_length": options.length}
    dropouts = dict.fromkeys(("embedding_dropout", "core_dropout", "output_dropout"), options.dropout)
    shape = sizes | {"n_heads": options.heads} | lengths | dropouts
    settings = transformer_grammar.Config(vocabulary_size=len(data.vocabulary), **shape, **config)
    training = TrainingConfig(
        batch_size=options.batch_size, steps=options.steps, warmup_steps=options.steps // 10, seed=seed,
        maximum_rate=options.rate, final_rate=options.rate / 100, validate_every=period, checkpoint_every=period,
        keep_checkpoints=keep,
    )  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    print(directory, flush=True)
    write_text(directory / VOCABULARY, data.vocabulary.to_json())
    save_settings(directory, data.reading, asdict(training))
    rows = options.batch_size
    with Batches(data.train, data.vocabulary, settings, rows, ops=ops, seed=seed, epochs=None) as batches:
        train(
            ops, transformer_grammar, settings, training, batches, directory,
            validation=lambda: Batches(data.valid, data.vocabulary, settings, rows, ops=ops, prefetch=0),
            vocabulary=digest(data.vocabulary), resume=True, progress=False,
        )  # fmt: skip
    return directory


def measured(ops: ModuleType, options: argparse.Namespace, data: Data, path: Path, result: Path) -> Figures:
    """Return the figures of `measure` for a run or a checkpoint; they are measured once and stored in `result`."""
    model = open_model(ops, path)
    question = {"checkpoint": digests([model.path]), "of": data.sources, "pairs": options.pairs, "beam": options.beam}
    question |= {"suites": [str(path) for path in options.suites], "parser": str(options.parser)}
    return kept(result, question, lambda: measure(ops, model, data, options))


def kept(path: Path, question: Figures, make: Callable[[], Figures]) -> Figures:
    """Return the figures stored for the same question; if there are none, make and store them."""
    if path.exists():
        figures = json.loads(path.read_text(encoding="utf-8"))
        if figures["asked"] == json.loads(json.dumps(question)):
            return dict(figures["found"])
    figures = make()
    write_text(path, json.dumps({"asked": question, "found": figures}, indent=1) + "\n")
    return figures


def hours(directories: Iterable[Path]) -> float:
    """Return the hours of all steps of these runs."""
    lines = [line for path in directories for line in (path / METRICS).read_text(encoding="utf-8").splitlines()]
    return sum(float(json.loads(line)["seconds"]) for line in lines) / 3600


def interval(values: Sequence[float]) -> Interval:
    """Return the mean with its bootstrapped 95 % interval; for a single value both ends are that value."""
    return bootstrap_interval(values) if len(values) > 1 else Interval(values[0], values[0], values[0])


def table(head: Sequence[str], rows: Iterable[Sequence[str]], n_names: int = 1) -> str:
    """Return a table in Markdown whose first columns are names."""
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * n_names + "---:|" * (len(head) - n_names)]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def finish(
    options: argparse.Namespace,
    program: str,
    text: str,
    figures: Any,
    picture: Picture,
    sources: Figures,
    n_hours: float,
) -> None:
    """Write table, result and picture beside the runs, and print the table."""
    options.out.mkdir(parents=True, exist_ok=True)
    option_values = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    option_values |= {name: list(map(str, value)) for name, value in option_values.items() if isinstance(value, list)}
    result = {"analysis": program, "options": option_values, "seeds": list(seeds_of(options)), "commit": commit(),
              "data": sources, "hours": round(n_hours, 6), "machine": machine(), "found": figures}  # fmt: skip
    write_text(options.out / f"{program}.json", json.dumps(result, indent=1) + "\n")
    write_text(options.out / f"{program}.md", text + "\n")
    save(picture, options.out / f"{program}.svg")
    print(f"\n{text}\n\n{options.out / program}.md, .json, .svg")


def seeds_of(options: argparse.Namespace) -> range:
    first: int = getattr(options, "first_seed", 0)
    return range(first, first + options.seeds)


def digest_of(lines: Iterable[str]) -> str:
    """Return the beginning of the SHA-256 of lines."""
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()[:16]

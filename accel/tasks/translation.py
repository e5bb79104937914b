"""Translation of sentences (FastTrees, section 4.5): IWSLT'15 English-Vietnamese in the paper, 50,000 steps.

Read from pairs of files, one sentence a line, words between blanks: STEM.SOURCE and STEM.TARGET for the stems of the
training, validation and test files, in one folder; each may be .gz or .xz. Source and target share one vocabulary.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from accel.average import average_checkpoints, kept_checkpoints
from accel.communicator import Communicator
from accel.data.lines import find_file
from accel.data.pairs import PairBatches, load_parallel, read_parallel
from accel.data.vocabulary import KINDS, Vocabulary, build_of_words
from accel.models import encoder_decoder
from accel.saved import VOCABULARY, Model, load_model, load_vocabulary
from accel.search import translate
from accel.tasks import Job, require_data
from accel.tasks.encoder_decoder import TRAINING, add_model_arguments, configured_transformer

STEPS, AVERAGED = 50_000, 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with the files STEM.SOURCE and STEM.TARGET")
    parser.add_argument("--source", default="en", help="how source files end (en)")
    parser.add_argument("--target", default="vi", help="how target files end (vi)")
    for name, stem in (("train", "train"), ("validation", "tst2012"), ("test", "tst2013")):
        parser.add_argument(f"--{name}-stem", default=stem, metavar="STEM", help=f"({stem})")
    parser.add_argument("--vocabulary", choices=KINDS, default="sentencepiece", help="what a word becomes")
    parser.add_argument("--vocabulary-size", type=int, default=8000, metavar="V", help="the most ids (8000)")
    parser.add_argument("--bleu-tokenize", default="none", help="sacrebleu's tokeniser; none: at blanks only (none)")
    add_model_arguments(parser, "base")


def build(options: argparse.Namespace, ops: ModuleType, group: Communicator) -> Job:
    """Return the job that the options ask for."""
    require_data(options)
    learned, held_out = (_files(options.data, vars(options), name) for name in ("train", "validation"))
    if options.resume and (options.out / VOCABULARY).exists():
        vocabulary = load_vocabulary(options.out)
    else:
        words = (words for pair in read_parallel(*learned) for words in pair)
        vocabulary = build_of_words(words, options.vocabulary, options.vocabulary_size)
    recipe = replace(TRAINING, steps=STEPS)
    config, training = configured_transformer(options, recipe, len(vocabulary))
    pairs, validation = (load_parallel(*files, vocabulary) for files in (learned, held_out))
    read: dict[str, Any] = {"ops": ops, "rank": group.rank, "ranks": group.size}
    return Job(
        encoder_decoder,
        config,
        training,
        vocabulary,
        PairBatches(pairs, training.batch_size, seed=training.seed, epochs=None, **read),
        lambda: PairBatches(validation, training.batch_size, **read),
        f"{len(pairs):,} pairs, {len(validation):,} held out, {len(vocabulary):,} ids ({vocabulary.kind})",
    )


def evaluate(ops: ModuleType, model: Model, data: Path, settings: dict[str, Any]) -> dict[str, Any]:
    """Return BLEU on the test files, of the best checkpoint and of the average of the last ones, up to eight."""
    directory = model.path.parent
    sources, references = zip(*read_parallel(*_files(data, settings, "test")), strict=True)
    found = {"best": model}
    kept = min(AVERAGED, len(kept_checkpoints(directory)))
    if kept > 1:
        path = average_checkpoints(directory, model.module.parameter_shapes(model.config), kept)
        found[f"average of {kept}"] = load_model(ops, path)
    return {
        "BLEU": {
            name: bleu(translations(ops, candidate, sources), references, settings["bleu_tokenize"])
            for name, candidate in found.items()
        }
    }


def translations(
    ops: ModuleType, model: Model, sources: Sequence[Sequence[str]], **options: Any
) -> list[list[str]]:
    """Return the words of the best translations; `options` are those of `accel.search.translate`."""
    vocabulary: Vocabulary = model.vocabulary
    encoded = [vocabulary.encode_words(words) for words in sources]
    targets = translate(ops, model.config, model.parameters, encoded, **options)
    return [vocabulary.decode(target) for target in targets]


def bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]], tokenize: str = "none") -> float:
    """Return BLEU in 0..100 as sacrebleu counts it, of lists of words with one reference each."""
    try:
        import sacrebleu
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("BLEU is counted by sacrebleu: pip install 'grove-lm[translate]'") from error
    found, wanted = ([" ".join(words) for words in sentences] for sentences in (hypotheses, references))
    score = sacrebleu.corpus_bleu(found, [wanted], tokenize=tokenize, force=True)
    return float(score.score)


def _files(folder: Path, settings: dict[str, Any], name: str) -> tuple[Path, Path]:
    """Return the source and the target file to train, to validate or to test on."""
    stem = settings[f"{name}_stem"]
    return find_file(folder, f"{stem}.{settings['source']}"), find_file(folder, f"{stem}.{settings['target']}")

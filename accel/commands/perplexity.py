"""`grove perplexity`: the perplexity per word; exact for a model of words, a bound from proposals for one of trees."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from accel.commands import opened as models
from accel.commands import proposed
from accel.data.batches.text import encode_text
from accel.data.corpora.gathered import Sentences, given_proposals, summary
from accel.data.corpora.treebank import NONE_TAGGED
from accel.data.files.lines import LineError
from accel.evaluation.bound_and_rerank import estimate, word_perplexity
from accel.scoring.perplexity import Perplexity, text_perplexity
from accel.trained.ensembles import of_words
from accel.trained.options import typed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    models.add_arguments(parser)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--proposals", type=Path, help="trees, blank lines between sentences")
    source.add_argument("--trees", type=Path, help="a treebank: every tree is the only proposal for its words")
    help_text = "for a language model of words: text, in which every line end counts as a word, of blank lines too"
    source.add_argument("--text", type=Path, help=help_text)
    help_text = "of a model of words: print also the perplexity in which the end of every sequence counts as a word"
    parser.add_argument("--count-ends", action="store_true", help=help_text)
    parser.add_argument("--gold", type=Path, help="trees of all sentences, whose words the proposals must have")
    proposed.add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    for name in ("gold", "documents", "sentences", "max_words", "numbered", "drawn", "also"):
        if options.proposals is None and getattr(options, name):
            raise ValueError(f"{typed(name)}: is for --proposals: leave it out")
    if options.text is not None and options.rows is not None:
        raise ValueError("--rows: is for --proposals and --trees: leave it out")
    if options.text is not None and options.count_ends:
        raise ValueError("--count-ends: every line end of --text counts as a word in any case: leave it out")
    models.check_outs(options, "rows")
    if options.text is not None:
        ops, model = models.open_language_model(options, "use --trees or --proposals")
        result = text_perplexity(ops, model, encode_text(options.text, model.vocabulary))
        _print(result)
        print(f"words           {result.n_words}")
        return 0
    ensemble = models.open_models(options)
    if options.count_ends and not of_words(ensemble.models[0]):
        raise ValueError(
            f"--count-ends: {ensemble.models[0].path} is of trees, which have no event of an end: leave it out"
        )
    if options.proposals is not None:
        sentences = proposed.read_sentences(options, ensemble.reading, ensemble.models[0])
    else:
        left_out = list[int]()
        sentences = given_proposals(options.trees, None, ensemble.reading, left_out)
        if left_out and not sentences.proposals:
            raise LineError(options.trees, 0, NONE_TAGGED)
        if left_out:
            print(f"grove: {options.trees}: {len(left_out)} trees without tags left out", file=sys.stderr)
    result = proposed.asked(word_perplexity, ensemble, sentences)
    if options.rows is not None:
        values = (["" if logp is None else f"{logp:.6f}"] for logp in result.sentence_logps)
        proposed.write_rows(options.rows, sentences, "log p", values)
    with models.figures(options.rows):
        _print(result)
        if options.count_ends:
            print(f"ends counted    {result.with_ends:.4f} ({result.meaning})")
        if options.drawn:
            _print_estimate(result, sentences, options.drawn)
        for name, value in summary(sentences):
            print(f"{name:<15} {value}")
        if options.count_ends:
            print(f"ends            {result.n_ends}")
        print(f"mean proposals  {result.mean_proposals:.2f}")
    return 0


def _print(result: Perplexity) -> None:
    print(f"perplexity      {result.perplexity:.4f} ({result.meaning})")
    print(f"log p           {result.logp:.4f}")


def _print_estimate(result: Perplexity, sentences: Sentences, how: str) -> None:
    if not result.is_bound:
        print(f"estimate        none ({result.meaning})")
        return
    value, error = estimate(result, sentences.draws, with_replacement=how == "with")
    print(f"estimate        {value:.4f} ± {error:.4f} (drawn {how} replacement)")

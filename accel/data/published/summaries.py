"""Articles with their summaries as contexts of a language model: sentences, a prompt, and the summary as one sentence.

Articles and summaries are cut after a number of tokens; the end symbol is the last token of the summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from accel.autodiff.arrays import offsets_of
from accel.data.batches.sequence_pairs import Column, read_parallel
from accel.data.corpora.documents import Documents, split_sentences
from accel.data.files.lines import errors_at
from accel.data.vocabularies.vocabulary import END_ID, Vocabulary

PROMPT = ("Summary", ":")


def prompted(
    path: Column, line: int, words: Sequence[str], vocabulary: Vocabulary, most: int
) -> tuple[list[list[int]], bool]:
    """Return the ids of the sentences of an article, and of the prompt; and whether the article was cut.

    The article is cut after `most` tokens. Raises LineError if the vocabulary lacks a word.
    """
    sentences = [_encoded(path, line, sentence, vocabulary) for _, sentence in split_sentences(enumerate(words))]
    starts = offsets_of(map(len, sentences)).tolist()
    article = [ids[: most - start] for ids, start in zip(sentences, starts, strict=False) if start < most]
    return [*article, _encoded(path, line, PROMPT, vocabulary)], starts[-1] > most


def load_summaries(
    articles: Column, summaries: Column, vocabulary: Vocabulary, most_of_article: int, most_of_summary: int
) -> tuple[Documents, int]:
    """Return every pair of lines of two files, or of two fields, as a document, and the number of pairs that were cut.

    Raises
    ------
    LineError
        As `accel.data.batches.sequence_pairs.read_parallel` does; a word outside a closed vocabulary.
    """
    contexts, n_cut = list[list[list[int]]](), 0
    for line, (article, summary) in enumerate(read_parallel(articles, summaries), 1):
        context, is_cut = prompted(articles, line, article, vocabulary, most_of_article)
        answer = _encoded(summaries, line, summary, vocabulary)
        n_cut += is_cut or len(answer) > most_of_summary
        contexts.append([*context, [*answer[:most_of_summary], END_ID]])
    sentences = [sentence for context in contexts for sentence in context]
    ids = np.array([i for sentence in sentences for i in sentence], np.int32)
    documents = offsets_of(map(len, contexts))
    lines = np.repeat(np.arange(1, len(contexts) + 1), np.diff(documents))
    bounds = offsets_of(map(len, sentences))
    return Documents(Path(str(articles)), ids, vocabulary.begins_word[ids], bounds, documents, lines), n_cut


def _encoded(path: Column, line: int, words: Sequence[str], vocabulary: Vocabulary) -> list[int]:
    with errors_at(path, line):
        return vocabulary.encode_words(words)

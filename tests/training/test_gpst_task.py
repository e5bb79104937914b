"""`grove train --task gpst`: from text to a model whose words and trees are scored, killed and resumed."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import islice
from math import exp
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.corpora.documents import load_documents, read_documents
from accel.data.files.lines import read_lines
from accel.data.published.wsj import read_gold
from accel.evaluation.induced_f1 import score
from accel.models.gpst import model as gpst
from accel.parsing.gpst import spans_of
from accel.tasks.gpst import CONFIGURATIONS
from accel.trained.opening import open_model
from accel.trained.words import encode_words
from accel.training.run import METRICS
from refimpl.gpst import losses as exact
from tests.fixtures.command_line import Grove, settings, with_options
from tests.fixtures.gpst_runs import TASK, run_of, texts
from tests.fixtures.killed_runs import check_killed_run
from tests.fixtures.toy_run import metrics

__all__ = ["texts"]

SEARCH = {"mode": "left-to-right", "beam": 20}


@pytest.fixture(scope="module")
def trained(texts: Path) -> Path:
    assert cli.main(run_of(texts, texts / "run", "--sentence-a-line")) == 0
    return texts / "run"


def test_perplexity_of_words_is_the_reference_s(texts: Path, trained: Path, tmp_path: Path) -> None:
    """Contexts of the test text are scored with their induced trees; the perplexity is per word, not per piece."""
    model = open_model(accel.load("cpu"), trained)
    assert model.module is gpst and model.config.n_positions == 100
    text = load_documents(texts / "test", model.vocabulary, tmp_path, sentence_a_line=True)
    sentences = [text.ids[a:b] for a, b in zip(text.sentences, text.sentences[1:], strict=False)]
    contexts: list[list[np.ndarray]] = [[]]
    for sentence in sentences:
        if sum(map(len, contexts[-1])) + len(sentence) > 99:
            contexts.append([])
        contexts[-1].append(sentence)
    config = exact.Config(model.config.n_heads, model.config.compose_heads, model.config.parser_heads)
    p = {name: x.astype(np.float64) for name, x in model.parameters.items()}
    logp = -sum(
        exact.losses(config, p, context).ar * (2 * sum(map(len, context)) - len(context)) for context in contexts
    )
    n_words = sum(len(s.words) for s in read_documents(texts / "test", sentence_a_line=True))
    figures = json.loads((trained / "evaluation.json").read_text())
    assert len(contexts) > 1 and n_words < len(text.ids) and figures["words"] == n_words
    assert figures["perplexity"] == pytest.approx(exp(-logp / n_words), rel=1e-4)


def test_trees_are_scored_beside_the_trivial_ones(texts: Path, trained: Path, grove: Callable[..., str]) -> None:
    figures = json.loads((trained / "evaluation.json").read_text())
    of_model = ["inside", "parser", "left-to-right", "left-to-right, no sync"]
    assert list(figures["sentence_f1"]) == [*of_model, "random", "balanced", "left", "right", "oracle"]
    output = grove("parse", "--checkpoint", trained, "--gold", texts / "trees", "--convention", "plain")
    rows = {line.split()[0]: line.split()[1:3] for line in output.splitlines()[1:]}
    assert list(rows) == ["gpst", "random", "balanced", "left", "right", "oracle", "gold"]
    for name, other in (("inside", "gpst"), ("left", "left"), ("oracle", "oracle")):
        assert rows[other] == [f"{figures[f'{average}_f1'][name]:.1f}" for average in ("sentence", "corpus")]
    model, gold = open_model(accel.load("cpu"), trained), list(read_gold(texts / "trees", "plain"))
    encoded = [encode_words(model, sentence.words) for sentence in gold]
    for name, mode in dict(
        zip(of_model[1:], ({"mode": "parser"}, SEARCH, SEARCH | {"sync": False}), strict=True)
    ).items():
        row = score(gold, list(spans_of(accel.load("cpu"), model, encoded, **mode)), "gpst")
        values = [figures[f"{average}_f1"][name] for average in ("sentence", "corpus")]
        assert values == [row.sentence_f1, row.corpus_f1]
    first, *_ = grove("parse", "--checkpoint", trained, texts / "test").splitlines()
    assert first.replace("(X", "").replace(")", "").split() == (texts / "test").read_text().splitlines()[0].split()
    assert grove("evaluate", trained).splitlines()[2].startswith("sentence_f1 inside")


def test_both_rates_rise_and_fall(trained: Path) -> None:
    rates = [line["learning_rate"] for line in metrics(trained)]
    assert rates == pytest.approx([1e-3 * (9 - step) / 9 for step in range(10)])
    settings_of = json.loads((trained / "config.json").read_text())["options"]
    assert settings_of["preset"] == "gpst" and settings_of["model"] == "gpst"


@pytest.mark.parametrize("call", [2, 8])
def test_a_killed_run_resumes_bit_for_bit(texts: Path, trained: Path, tmp_path: Path, call: int) -> None:
    check_killed_run(gpst, run_of(texts, tmp_path / "run", "--sentence-a-line"), call, trained)


def test_gpt2_learns_from_the_same_text(
    texts: Path, tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    out = tmp_path / "run"
    grove(*run_of(texts, out, "--sentence-a-line", "--model", "gpt2", "--one-document", "--set", "warmup_steps=4"))
    assert set(json.loads((out / "evaluation.json").read_text())) == {"perplexity", "words"}
    assert [line["learning_rate"] for line in metrics(out)[:5]] == pytest.approx([i * 1e-3 / 4 for i in range(5)])
    wrong = mistake("parse", "--checkpoint", out, texts / "test")
    assert wrong.startswith(
        f"{out}/best.safetensors: holds a gpt2, which gives no trees without labels; models that do: "
    )


def test_configurations_are_the_paper_s(texts: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    """Sizes, layers, rates and batches are those of section 4; the deeper GPT-2s have one layer more than GPST."""
    sizes = {name: gpst.Config(2, **fields) for name, (fields, _) in CONFIGURATIONS.items()}
    assert [
        (x.d_model, x.n_heads, x.type_layers, x.token_layers, x.d_compose, x.compose_layers, x.decompose_layers)
        for x in (sizes["small"], sizes["medium"])
    ] == [(768, 12, 3, 9, 256, 4, 1), (1024, 16, 3, 21, 512, 4, 1)]
    assert [sizes[name].type_layers + sizes[name].token_layers for name in ("small_13", "medium_25")] == [13, 25]
    for name, rate in {"small": 5e-5, "small_13": 5e-5, "medium": 1e-4, "medium_25": 1e-4}.items():
        training = CONFIGURATIONS[name][1]
        assert (training.maximum_rate, training.batch_size) == (rate, 8 * 32)
    wrong = mistake(*run_of(texts, tmp_path / "run", "--configuration", "medium_25"))
    assert wrong == "--configuration: medium_25 is for gpt2; use --model gpt2, or medium"


def test_any_text_is_read(texts: Path, trained: Path) -> None:
    """Text is split into sentences, and words that training lacks are spelled in pieces."""
    before = (trained / "evaluation.json").read_bytes()
    assert cli.main(["evaluate", str(trained), "--data", str(texts / "novel")]) == 0
    assert json.loads((trained / "evaluation.data=novel.json").read_text())["words"] == 9
    assert (trained / "evaluation.json").read_bytes() == before  # the scores of the run's own test


@pytest.mark.parametrize(("how", "name"), [("skip", "left out"), ("cut", "cut")])
def test_long_sentences_are_counted(texts: Path, tmp_path: Path, run_grove: Grove, how: str, name: str) -> None:
    (tmp_path / "test").write_text("the dog sleeps\n" + "dog " * 100 + "\n")
    more = ("--test", tmp_path / "test", "--long-sentences", how, "--max-tokens", 50, "--steps", 1)
    status, _, err = run_grove(*with_options(run_of(texts, tmp_path / "run", "--sentence-a-line"), *more))
    assert status == 0 and f"test: long sentences: 1 of more than 50 tokens were {name}" in err
    assert json.loads((tmp_path / "run" / "evaluation.json").read_text())[f"sentences {name}"] == 1


def test_mistakes_are_named(texts: Path, trained: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    out = tmp_path / "run"
    wrong = mistake(*run_of(texts, out, "--sentence-a-line", "--max-tokens", 3))
    assert wrong.startswith(f"{texts}/train:1: a sentence of ") and wrong.endswith(
        "may have, 3; use --long-sentences cut or skip, or a larger --max-tokens"
    )
    wrong = mistake(*run_of(texts, out))  # without full stops all lines are one sentence
    assert wrong.startswith(f"{texts}/train:1: a sentence of ")
    wrong = mistake("parse", "--checkpoint", trained, texts / "test", "--layer", 1)
    assert wrong == f"--layer: is for distances, and {trained}/best.safetensors holds a gpst: leave it out"
    wrong = mistake("parse", "--checkpoint", trained, texts / "test", "--model", "fasttrees")
    assert wrong.endswith("a model of kind gpst, not fasttrees: leave --model out")
    same = ("--validation", texts / "train", "--test", texts / "train")
    closed = run_of(texts, out, "--sentence-a-line", "--vocabulary", "words", "--vocabulary-size", 200, *same)
    (texts / "strange").write_text("(S (NP zebras) sleep)\n")
    wrong = mistake(*with_options(closed, "--gold", texts / "strange"))
    assert wrong.startswith(f"{texts}/strange:1: the word 'zebras' is not in the closed vocabulary")
    (texts / "long").write_text("(S dog)\n(S " + "dog " * 100 + ")\n")
    wrong = mistake(*run_of(texts, out, "--sentence-a-line", "--gold", texts / "long"))
    assert wrong.startswith(f"{texts}/long:2: a sentence of ")
    assert wrong.endswith(" tokens, more than a context of the model has, 99")
    wrong = mistake(*run_of(texts, out, "--sentence-a-line", "--beam", -1))
    assert wrong == "--beam -1: at least 0 is needed"
    assert not (out / METRICS).exists()  # nothing was trained
    assert cli.main(with_options(closed, "--gold", texts / "long", "--beam", 0, "--steps", 1)) == 0
    scores = json.loads((out / "evaluation.json").read_text())["corpus_f1"]
    assert list(scores)[:3] == ["inside", "parser", "random"]


def test_the_penn_treebank(data_dir: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    text, trees = data_dir / "ptb_lm" / "ptb.valid.txt.xz", data_dir / "ptb_sample" / "wsj_sample.mrg.xz"
    lines = islice(read_lines(data_dir / "ptb_lm" / "ptb.test.txt.xz"), 500)
    (tmp_path / "test").write_text("".join(f"{line}\n" for _, line in lines))
    files = ("--data", text, "--test", tmp_path / "test", "--gold", trees)
    small = ("--sentence-a-line", "--vocabulary-size", 2000, "--steps", 2, "--convention", "wsj10", *settings(TASK))
    grove("train", "--task", "gpst", "--out", tmp_path / "run", *files, *small)
    figures = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert figures["words"] == 10_512
    assert figures["sentence_f1"]["right"] == pytest.approx(58.6, abs=0.1) and figures["sentence_f1"]["inside"] > 20

"""Articles and summaries as contexts, and GPST that learns to continue an article with its summary."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.data.files.lines import LineError
from accel.data.published.summaries import load_summaries, prompted
from accel.data.vocabularies.building import build_of_words
from accel.data.vocabularies.vocabulary import END_ID, Vocabulary
from accel.tasks import summarisation
from accel.tasks.summarisation import drawn_summaries
from accel.trained.opening import open_model
from tests.fixtures.command_line import settings, with_options
from tests.fixtures.gpst_runs import QUICK, TASK
from tests.fixtures.toy_run import metrics

ARTICLE = 'The dog barks. It is " loud ! " And so on'


def vocabulary_of(*texts: str) -> Vocabulary:
    return build_of_words([text.split() for text in (*texts, "Summary :")], "words")


def decoded(vocabulary: Vocabulary, sentences: list[list[int]]) -> list[str]:
    return [" ".join(vocabulary.decode(ids)) for ids in sentences]


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (99, ["The dog barks.", 'It is " loud ! "', "And so on"]),
        (12, ["The dog barks.", 'It is " loud ! "', "And so on"]),
        (11, ["The dog barks.", 'It is " loud ! "', "And so"]),
        (9, ["The dog barks.", 'It is " loud ! "']),
        (2, ["The dog"]),
    ],
)
def test_articles_are_cut_and_prompted(most: int, expected: list[str]) -> None:
    vocabulary = vocabulary_of(ARTICLE)
    prompt, is_cut = prompted(Path("file"), 3, ARTICLE.split(), vocabulary, most)
    assert decoded(vocabulary, prompt) == [*expected, "Summary :"] and is_cut == (most < 12)
    with pytest.raises(LineError, match=r"^file:3: the word 'cat' is not in the closed vocabulary"):
        prompted(Path("file"), 3, ["cat"], vocabulary, most)


def test_every_pair_is_a_document(tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"{ARTICLE}\nThe dog\n")
    (tmp_path / "s").write_text("dog barks. It is\nloud\n")
    vocabulary = vocabulary_of(ARTICLE)
    text, n_cut = load_summaries(tmp_path / "a", tmp_path / "s", vocabulary, 12, 3)
    parts = [text.ids[a:b].tolist() for a, b in zip(text.sentences, text.sentences[1:], strict=False)]
    first = ["The dog barks.", 'It is " loud ! "', "And so on", "Summary :", "dog barks. It </s>"]
    assert decoded(vocabulary, parts) == [*first, "The dog", "Summary :", "loud </s>"] and n_cut == 1
    assert text.documents.tolist() == [0, 5, 8] and text.lines.tolist() == [1] * 5 + [2] * 3
    assert load_summaries(tmp_path / "a", tmp_path / "s", vocabulary, 11, 4)[1] == 1
    assert load_summaries(tmp_path / "a", tmp_path / "s", vocabulary, 12, 4)[1] == 0
    (tmp_path / "s").write_text("dog\ncat\n")
    with pytest.raises(LineError, match="s:2: the word 'cat'"):
        load_summaries(tmp_path / "a", tmp_path / "s", vocabulary, 12, 4)


def test_which_pieces_begin_words() -> None:
    vocabulary = build_of_words([["birds", "bird", "sing", "singing"]] * 5, "sentencepiece", 268)
    words = ["birds", "sing", "\u00e9"]
    for ids in (vocabulary.encode_words([word]) for word in words):
        assert vocabulary.begins_word[ids].tolist() == [True] + [False] * (len(ids) - 1)
    assert vocabulary.begins_word[:2].all() and len(vocabulary.begins_word) == len(vocabulary)
    assert vocabulary_of(ARTICLE).begins_word.all()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Articles of two sentences; the summary says who does what."""
    folder = tmp_path_factory.mktemp("summaries")
    draw = np.random.default_rng(0)
    for stem, count in (("train", 60), ("valid", 6), ("test", 6)):
        articles, summaries = [], []
        for _ in range(count):
            who, does = [("dog", "barks"), ("cat", "purrs")][draw.integers(2)]
            articles.append(f"The {who} {does} . Now the {draw.choice(['old', 'young'])} {who} {does} .")
            summaries.append(f"{who} {does}")
        (folder / f"{stem}.article").write_text("\n".join(articles) + "\n")
        (folder / f"{stem}.title").write_text("\n".join(summaries) + "\n")
    return folder


EPOCHS = 50
"""Enough for each of five seeds; after 25 epochs, two of them wrote the same sentence for all articles."""


def run_of(folder: Path, out: Path, *more: object, model: str = "gpst") -> list[str]:
    sizes = ("--article-tokens", 30, "--summary-tokens", 6, "--vocabulary", "words", "--batch-size", 10)
    quick = (x for x in QUICK if model == "gpst" or not x.startswith("own"))
    options = settings((*TASK, *quick, "d_model=16", "maximum_rate=0.02", "n_positions=40"))
    command = ("train", "--task", "summarisation", "--model", model, "--data", folder, "--out", out, *sizes)
    return with_options((*command, *options), *more)


@pytest.mark.parametrize("name", ["gpst", "gpt2"])
def test_trained_sampled_and_scored(
    folder: Path, tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str], name: str
) -> None:
    pytest.importorskip("rouge_score", reason="the extra summarise is not installed")
    out = tmp_path / "run"
    output = grove(*run_of(folder, out, "--epochs", EPOCHS, "--seed", 3, model=name))
    figures = json.loads((out / "evaluation.json").read_text())
    assert figures.keys() == {"ROUGE-1", "ROUGE-2", "ROUGE-L", "R-AVG"} and figures["ROUGE-L"]["best"] > 95
    assert "ROUGE-L best" in output and len(metrics(out)) == 6 * EPOCHS
    assert grove("evaluate", out, "--data", folder) in output
    assert grove("train", "--out", out, "--resume") == output
    ops = accel.load("cpu")
    model = open_model(ops, out)
    options = {"article_tokens": 30, "summary_tokens": 6, "top_k": 1, "seed": 0}
    articles = ["The dog barks . Now the young dog barks .".split(), "The cat purrs . Now the old cat purrs .".split()]
    assert list(drawn_summaries(ops, model, Path("file"), articles, options)) == [["dog", "barks"], ["cat", "purrs"]]
    short = drawn_summaries(ops, model, Path("file"), articles, options | {"summary_tokens": 1})
    assert list(short) == [["dog"], ["cat"]]
    evaluate_options = ("--data", folder, "--top-k", 3, "--write", tmp_path / "summaries")
    scores = grove("evaluate", out, *evaluate_options)
    assert scores == grove("evaluate", out, *evaluate_options, "--no-sync") or name == "gpst"
    with pytest.MonkeyPatch.context() as patched:
        syncs: list[bool] = []
        patched.setattr(summarisation, "sample", lambda *_, sync, **__: syncs.append(sync) or iter([(END_ID,)]))
        for more in ({}, {"sync": False}):
            assert list(drawn_summaries(ops, model, Path("file"), articles, options | more)) == [[], []]
        assert syncs == [True, True, False, False]
    assert len((tmp_path / "summaries").read_text().splitlines()) == 6
    assert json.loads((out / "evaluation.top_k=3,sync=False.json").read_text()).keys() == figures.keys()
    assert json.loads((out / "evaluation.json").read_text()) == figures
    wrong = mistake("evaluate", out, "--beam", 4)
    assert wrong == f"--beam: is not for a {name} of the task summarisation; use --average, --write, --top-k, --no-sync"
    again = ("--checkpoint", out, "--steps", 1)
    arguments = [x for x in run_of(folder, tmp_path / "next", *again, model=name) if "=" not in x and x != "--set"]
    del arguments[(place := arguments.index("--vocabulary")) : place + 2]
    assert cli.main(arguments) == 0
    assert open_model(ops, tmp_path / "next").vocabulary == model.vocabulary


def test_fields_are_two_files_in_one(folder: Path, tmp_path: Path, grove: Callable[..., str]) -> None:
    """A file of JSON lines with two fields is read like two files; its parts may have other names."""
    pytest.importorskip("rouge_score", reason="the extra summarise is not installed")
    for stem, name in (("train", "train"), ("valid", "validation"), ("test", "test")):
        texts = [(folder / f"{stem}.{end}").read_text().splitlines() for end in ("article", "title")]
        lines = [json.dumps({"id": "0", "document": a, "summary": b}) for a, b in zip(*texts, strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    outputs = [
        grove(*run_of(source, tmp_path / str(number), "--epochs", 1, *more)).splitlines()[:-1]
        for number, (source, more) in enumerate(((folder, ()), (tmp_path, ("--preset", "xsum"))))
    ]
    assert outputs[0] == outputs[1] and metrics(tmp_path / "0") == metrics(tmp_path / "1")
    assert grove("evaluate", tmp_path / "1").splitlines() == outputs[1]


@pytest.mark.parametrize("name", summarisation.PRESETS)
def test_presets_are_those_of_the_paper(name: str, folder: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    """GPST, section 4.2.1 and A.5; with --source and --target they read two files."""
    command = ("train", "--task", "summarisation", "--model", "gpst", "--preset", name, "--out", tmp_path / "run")
    files = ("--data", folder, "--source", "article", "--vocabulary", "words", *settings(("n_positions=99",)))
    article, summary = {"gigaword": (400, 120)}.get(name, (900, 100))
    counts = f"--article-tokens {article} and --summary-tokens {summary} make {article + summary + 3}"
    assert mistake(*command, *files) == f"{counts} with prompt and end, more than a context of the model has, 98"
    epochs, size = {"gigaword": (10, 64)}.get(name, (15, 16))
    _, values = summarisation.PRESETS[name]
    assert (values["epochs"], values["batch_size"], values["top_k"]) == (epochs, size, 2)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"document": "a"}', "train.jsonl:2: no text in a field summary: those with text are document"),
        ('{"document": 1}', "train.jsonl:2: no text in a field document: no field has text"),
        ("[]", 'train.jsonl:2: no object: every line is one, such as {"document": "..."}'),
        ("{", "train.jsonl:2:2: not JSON: Expecting property name enclosed in double quotes"),
        pytest.param("[" * 10**5, "train.jsonl:2: not JSON: too many brackets within one another", id="brackets"),
        (r'{"a": "\uD83D"}', r"train.jsonl:2: \ud83d is half of a character: write both halves, or leave it out"),
        ('{"document": " ", "summary": "a"}', "train.jsonl:2: an empty sentence in the field document"),
    ],
)
def test_bad_objects_are_named(line: str, message: str, tmp_path: Path, mistake: Callable[..., str]) -> None:
    good = json.dumps({"document": "a dog", "summary": "dog"})
    for stem in ("train", "valid"):
        (tmp_path / f"{stem}.jsonl").write_text(f"{good}\n{line}\n")
    run = run_of(tmp_path, tmp_path / "run", "--fields", "document,summary")
    assert mistake(*run) == f"{tmp_path}/{message}"
    wrong = mistake(*run, "--source", "article")
    assert wrong == "--fields: with --source or --target; use the fields of STEM.jsonl, or two files, not both"
    assert (
        mistake(*run_of(tmp_path, tmp_path / "run", "--fields", "a"))
        == "--fields a: not two names; use such as document,summary"
    )
    (tmp_path / "train.jsonl").unlink()
    assert mistake(*run) == f"{tmp_path}: no train.jsonl: it has valid; use --train-stem"


def test_mistakes_are_named(folder: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    out = tmp_path / "run"
    wrong = mistake(*run_of(folder, out, "--article-tokens", 31))
    counts = "--article-tokens 31 and --summary-tokens 6"
    assert wrong == f"{counts} make 40 with prompt and end, more than a context of the model has, 39"
    wrong = mistake(*run_of(folder, out, "--model", "transformer", "--checkpoint", out))
    assert wrong == "--checkpoint: is for gpst and gpt2; a transformer starts from scratch"
    wrong = mistake(*run_of(folder, out, "--validation-stem", "dev"))
    assert "dev.article" in wrong
    wrong = mistake(*run_of(folder, out, "--vocabulary-size", 5))
    assert wrong.endswith("; use unknown_classes or sentencepiece, or a larger vocabulary size")
    for name in ("article-tokens", "summary-tokens", "top-k"):
        assert mistake(*run_of(folder, out, f"--{name}", 0)) == f"--{name} 0: at least 1 is needed"
    assert not out.exists()

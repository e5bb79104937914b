"""Options that a model does not take are refused in one line, which says what to do; none is ignored in silence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fixtures.command_line import Grove, settings
from tests.fixtures.text_files import LANGUAGE_MODEL
from tests.fixtures.tiny_runs import SENTENCES, TREES, runs

__all__ = ["runs"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in SENTENCES))
    return tmp_path / "text"


@pytest.mark.parametrize("command", ["score", "perplexity"])
def test_text_has_no_options_of_trees(
    command: str, runs: dict[str, Path], text: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    score = (command, "--checkpoint", runs["fasttrees"], "--text", text)
    assert grove(*score)
    for option in (("--keep-tags",), ("--no-drop-traces",), ("--ensemble", "product")):
        assert mistake(*score, *option) == f"{option[0]}: is for trees, and --text has none: leave it out"


def test_one_model_makes_no_ensemble(runs: dict[str, Path], text: Path, mistake: Callable[..., str]) -> None:
    trees = text.with_name("trees")
    trees.write_text("".join(f"{tree}\n" for tree in TREES))
    for command in (("surprisal", text), ("score", trees)):
        wrong = mistake(*command, "--checkpoint", runs["tg"], "--ensemble", "product")
        assert wrong == "--ensemble: is for several models: repeat --checkpoint, or leave it out"


@pytest.mark.parametrize(
    ("kind", "option", "of"),
    [("gpst", ("--max-height", 1), "a Treeformer"), ("fasttrees", ("--max-height", 1), "a Treeformer"),
     ("gpst", ("--layers", 1), "a language model"), ("gpst", ("--split", "biased"), "a language model"),
     ("fasttrees", ("--modes", "parser"), "a GPST"), ("fasttrees", ("--beam", 2), "a GPST")],
)  # fmt: skip
def test_induction_refuses_options_that_no_model_takes(
    kind: str, option: tuple[str, int | str], of: str, runs: dict[str, Path], text: Path, mistake: Callable[..., str]
) -> None:
    gold = text.with_name("gold")
    gold.write_text("".join(f"{tree}\n" for tree in TREES))
    induction = ("induction", "--gold", gold, "--convention", "plain", "--checkpoint")
    wrong = mistake(*induction, runs[kind], *option)
    assert wrong == f"{option[0]}: is for {of}, and none is given: leave it out"
    wrong = mistake(*induction, runs["gpst"], "--modes", "parser", "--beam", 2)
    assert wrong == "--beam: is for the mode left-to-right: add it to --modes, or leave --beam out"


def test_a_model_of_trees_or_of_words_is_told_its_own_option(
    runs: dict[str, Path], text: Path, mistake: Callable[..., str]
) -> None:
    trees = text.with_name("trees")
    trees.write_text("".join(f"{tree}\n" for tree in TREES))
    for command, instead in (("score", "leave --text out, and give a treebank"), ("perplexity", "use --trees or ")):
        wrong = mistake(command, "--checkpoint", runs["tg"], "--text", text)
        holds = f"--text: {runs['tg']}/best.safetensors holds a tg, which gives log-probabilities of trees: "
        assert wrong.startswith(holds + instead)
    for command in (("score", trees), ("perplexity", "--trees", trees)):
        wrong = mistake(*command, "--checkpoint", runs["lstm"])
        holds = f"{runs['lstm']}/best.safetensors: holds an lstm, which gives log-probabilities of text, not of trees"
        assert wrong == f"{holds}: use --text"
    wrong = mistake("rerank", "--proposals", trees, "--gold", trees, "--checkpoint", runs["lstm"])
    assert "which gives no log-probabilities of trees; models that do: tg, " in wrong


def test_words_without_actions_between_them_are_not_drawn_by_action(
    runs: dict[str, Path], grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    generate = ("generate", "--words", 2, "--no-sync", "--checkpoint")
    for kind in ("gpt2", "txl_terminals"):
        path = runs[kind] / "best.safetensors"
        wrong = f"--no-sync: is for actions between words, and {path} holds a {kind}: leave it out"
        assert mistake(*generate, runs[kind]) == wrong
    for kind in ("gpst", "tg"):
        assert grove(*generate, runs[kind])


def test_a_model_without_a_search_has_no_beam(
    runs: dict[str, Path], text: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    for kind, refused in (("gpt2", True), ("lstm", True), ("gpst", False)):
        surprisal = ("surprisal", "--checkpoint", runs[kind], text, "--beam", 2)
        if refused:
            path = runs[kind] / "best.safetensors"
            assert mistake(*surprisal) == f"--beam: the model {path} has no such search: leave it out"
        else:
            assert grove(*surprisal)


@pytest.mark.parametrize("option", [("--convention", "wsj"), ("--preset", "gpst"), ("--by-sentence", "tsv")])
def test_sentences_without_gold_trees_have_no_options_of_gold_trees(
    option: tuple[str, str], runs: dict[str, Path], text: Path, mistake: Callable[..., str]
) -> None:
    wrong = mistake("parse", "--checkpoint", runs["gpst"], text, *option)
    assert wrong == f"{option[0]}: is for --gold: give gold trees with it"


@pytest.mark.parametrize(
    ("options", "wrong"),
    [(("gpst", "--set", "n_classes=2"),
      "--set n_classes=2: n_classes follows from the data or from other options; leave it out"),
     (("language_model", "--model", "fasttrees", "--set", "kind=lstm"),
      "--set kind=lstm: is set by --model: leave it out"),
     (("language_model", "--steps", 3, "--set", "steps=4"),
      "--set steps=4: differs from --steps 3: leave out one of them"),
     (("language_model", "--epochs", 9, "--set", "steps=2"),
      "--set steps=2: differs from --epochs 9: leave out one of them"),
     (("gpst", "--seed", 1, "--set", "seed=0"), "--set seed=0: differs from --seed 1: leave out one of them"),
     (("trees", "--model", "txl_cc", "--memory", "shift"), "--memory: is for tg: leave it out"),
     (("trees", "--keep-tags", "--leave-out-untagged"),
      "--leave-out-untagged: is for tags that are dropped, and --keep-tags keeps them"),
     (("trees", "--model", "txl_terminals", "--positions", "depth"), "--positions: is for tg: leave it out"),
     (("summarisation", "--model", "gpst", "--checkpoint", "nowhere", "--vocabulary", "words"),
      "--vocabulary: the vocabulary is that of --checkpoint; leave it out"),
     (("gpst", "--beam", 3), "--beam: is for --gold: give gold trees with it"),
     (("gpst", "--convention", "plain"), "--convention: is for --gold and --validation-gold: give gold trees with it"),
     (("gpst", "--preset", "evalb"), "--preset: is for --gold and --validation-gold: give gold trees with it"),
     (("agreement", "--sentences", 9), "--sentences: is for generated data, and --data names a file: leave it out"),
     (("arithmetic", "--problems", 9), "--problems: is for generated data, and --data names a file: leave it out"),
     (("sentiment", "--no-phrases"),
      "--no-phrases: is for trees; a .tsv does not say which lines are phrases: leave it out"),
     (("gpst", "--model", "gpt2", "--gold", "nowhere"), "--gold: is for gpst; a gpt2 has no trees"),
     (("gpst", "--gold", "nowhere"),
      "--gold: is scored with the test text; use --test TEXT, or grove parse --gold after the training")],
)  # fmt: skip
def test_data_and_models_that_have_no_such_option(
    options: tuple[object, ...], wrong: str, text: Path, mistake: Callable[..., str]
) -> None:
    data = text.rename(text.with_name("text.tsv"))
    assert mistake("train", "--data", data, "--out", text.with_name("run"), "--task", *options) == wrong


@pytest.mark.parametrize("option", ["out", "cache"])
def test_a_run_does_not_lie_in_a_folder_whose_files_are_all_read(
    option: str, text: Path, mistake: Callable[..., str]
) -> None:
    (text.parent / "books").mkdir()
    text.rename(inside := text.parent / "books" / "text")
    paths = {"out": text.parent / "run", "cache": text.parent / "cache"} | {option: inside.parent / "deep"}
    command = ("train", "--task", "gpst", "--data", inside.parent)
    wrong = mistake(*command, *(word for name, path in paths.items() for word in (f"--{name}", path)))
    reason = f"lies in --data {inside.parent}, all of whose files are read: choose a directory outside"
    assert wrong == f"--{option} {paths[option]}: {reason}" and not (text.parent / "run").exists()


_TRANSFORMERS = "--size: is for transformer, treeformer, treeformer_released"


@pytest.mark.parametrize(
    ("options", "reason"),
    [(("sentiment", "--model", "lstm", "--size", "base"), _TRANSFORMERS),
     (("sentiment", "--model", "gpst", "--size", "base"), _TRANSFORMERS),
     (("summarisation", "--model", "gpst", "--size", "tiny"), "--size: is not for gpst and gpt2"),
     (("summarisation", "--model", "gpt2", "--batch-by", "longer"), "--batch-by: is not for gpst and gpt2"),
     (("language_model", "--model", "fasttrees", "--variant", "released"), "--variant: is for conv_fasttrees"),
     (("logic", "--model", "on_lstm", "--variant", "paper"), "--variant: is for conv_fasttrees")],
)  # fmt: skip
def test_a_model_of_another_kind_has_no_such_option(
    options: tuple[str, ...], reason: str, text: Path, mistake: Callable[..., str]
) -> None:
    wrong = mistake("train", "--data", text, "--out", text.with_name("run"), "--task", *options)
    assert wrong == f"{reason}: leave it out"


@pytest.mark.parametrize(
    ("changes", "lines"),
    [(("optimizer=sgd", "warmup_steps=3", "beta1=0.5"),
      ["not read: warmup_steps=3 (schedule=constant), beta1=0.5 (optimizer=sgd)"]),
     (("nonmonotone=3", "stop_after=2"),
      ["not read: nonmonotone=3 (no validation), stop_after=2 (no validation)",
       "no validation: nothing is averaged (optimizer=nt_asgd), all steps are made (stop_after=2)"]),
     (("optimizer=sgd", "decay=decoupled", "weight_decay=0"), ["not read: decay=decoupled (weight_decay=0.0)"]),
     (("optimizer=sgd", "decay=decoupled"), [])],
)  # fmt: skip
def test_settings_that_no_training_reads_are_named(
    changes: tuple[str, ...], lines: list[str], text: Path, run_grove: Grove
) -> None:
    train = ("train", "--task", "language_model", "--data", text, "--batch-size", 2, "--out", text.with_name("run"))
    status, _, err = run_grove(*train, "--steps", 1, *settings((*LANGUAGE_MODEL, *changes)))
    assert status == 0 and [line for line in err.splitlines() if line.startswith(("not read", "no valid"))] == lines


@pytest.mark.parametrize(
    ("measure", "option", "measures"),
    [("rouge", "--test-stem", "cognition"), ("bleu", "--data", "cognition"), ("cognition", "--field", "bleu and rouge"),
     ("cognition", "--references", "bleu and rouge"), ("bleu", "--rouge-tokenize", "rouge")],
)  # fmt: skip
def test_scores_of_outputs_have_their_own_options(
    measure: str, option: str, measures: str, text: Path, mistake: Callable[..., str]
) -> None:
    inputs = ("--data" if measure == "cognition" else "--references", text)
    value = "stems" if option == "--rouge-tokenize" else text
    assert (
        mistake("score_outputs", measure, text, *inputs, option, value) == f"{option}: is for {measures}: leave it out"
    )


TREEBANK = "(S (NP the bird) (VP sings))\n"


@pytest.mark.parametrize(
    ("kind", "command"),
    [("fasttrees", ("perplexity", "--text")), ("fasttrees", ("score", "--text")), ("fasttrees", ("parse",)),
     ("tg", ("surprisal",)), ("tg", ("parse",)), ("gpst", ("surprisal",)), ("gpst", ("embed", "--out", "states"))],
)  # fmt: skip
def test_a_treebank_is_not_read_as_text(
    kind: str, command: tuple[str, ...], runs: dict[str, Path], text: Path, mistake: Callable[..., str]
) -> None:
    text.write_text(f"\n{TREEBANK}")
    name, *more = command
    arguments = (*more, text) if more == ["--text"] else (text, *more)
    wrong = mistake(name, "--checkpoint", runs[kind], *arguments)
    assert wrong.startswith(f"{text}:2: a tree, where a line of text should be: ")
    assert wrong.endswith("grove prepare text FILE --convention plain --out TEXT")


@pytest.mark.parametrize("task", ["language_model", "gpst", "masked_words"])
def test_a_treebank_trains_no_model_of_text(task: str, text: Path, mistake: Callable[..., str]) -> None:
    text.write_text(TREEBANK)
    wrong = mistake("train", "--task", task, "--data", text, "--steps", 1, "--out", text.with_name("run"))
    assert wrong.startswith(f"{text}:1: a tree, where a line of text should be: ")


def test_a_model_is_no_task(mistake: Callable[..., str]) -> None:
    for model, task in (("tg", "trees"), ("fasttrees", "language_model"), ("treeformer", "translation")):
        wrong = mistake("train", "--task", model, "--out", "x")
        assert wrong == f"--task {model}: a model; use --task {task} --model {model}"


def test_the_start_symbol_is_no_word_of_a_tree(
    runs: dict[str, Path], text: Path, mistake: Callable[..., str], tmp_path: Path
) -> None:
    text.write_text("the dog sees her\nthe <s> sees her\n")
    wrong = f"{text}:2: <s> begins the actions of every tree, and is no word: write another"
    for kind in ("gpst", "treeformer", "fasttrees", "tg"):
        assert mistake("parse", "--checkpoint", runs[kind], text) == wrong
    command = ("propose", "--checkpoint", runs["span_parser"], text, "--out", tmp_path / "out")
    assert mistake(*command) == wrong


def test_a_run_is_given_without_a_name(runs: dict[str, Path], mistake: Callable[..., str]) -> None:
    wrong = mistake("evaluate", "--checkpoint", runs["lstm"])
    assert wrong == "--checkpoint: no such option: give RUN without --checkpoint; see grove evaluate --help"


def test_a_gpst_is_scored_by_other_commands(runs: dict[str, Path], text: Path, mistake: Callable[..., str]) -> None:
    wrong = mistake("score", "--checkpoint", runs["gpst"], "--text", text)
    assert wrong.endswith("; use grove surprisal, or grove evaluate RUN --data FILE")

"""What `grove draw` refuses, each in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from accel.commands import draw as command
from accel.training.run import METRICS
from tests.fixtures.tiny_runs import TG, TREES, save_tiny


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("runs") / "tg", "tg")


def test_heads_and_layers_are_counted_from_1(run: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    draw = ("draw", "attention", TREES[0], "--checkpoint", run, "--out", tmp_path / "x.svg")
    for option, most in (("--head", "heads 1 to 2"), ("--layer", "layers 1 to 1")):
        for number in (0, -1):
            assert mistake(*draw, option, number) == f"{option} {number}: at least 1 is needed"
        assert mistake(*draw, option, 3) == f"{option} 3: the model has {most}"
    assert not (tmp_path / "x.svg").exists()


def test_an_unknown_word_or_label_has_its_place(run: Path, tmp_path: Path, mistake: Callable[..., str]) -> None:
    draw = ("draw", "attention", "--checkpoint", run, "--out", tmp_path / "x.svg")
    path = tmp_path / "some.trees"
    path.write_text(f"{TREES[0]}\n\n(XP the dog)\n(S the zebra)\n")
    reasons = "the label 'XP' is not in the vocabulary", "the word 'zebra' is not in the closed vocabulary"
    for number, line, text, reason in zip((2, 3), (3, 4), ("(XP the dog)", "(S the zebra)"), reasons, strict=True):
        assert mistake(*draw, path, "--number", number).startswith(f"{path}:{line}: {reason}")
        assert mistake(*draw, text).startswith(f"{text}: {reason}")


@pytest.mark.parametrize(
    ("command", "option", "reason"),
    [
        (("tree", "two.trees"), ("--checkpoint", "RUN"), "tree, but for attention, distances, chart, parse"),
        (("tree", "two.trees"), ("--head", 1), "tree, but for attention"),
        (("mask", TREES[0]), ("--layer", 1), "mask, but for attention, distances"),
        (("loss", "run"), ("--number", 1), "loss, but for mask, tree, attention"),
        (("distances", "a", "dog"), ("--keep-tags",), "distances, but for mask, tree, attention"),
        (("attention", TREES[0]), ("--target", "a dog"), "attention, but for chart"),
        (("chart", "a dog"), ("--max-height", 3), "chart, but for parse"),
    ],
)
def test_options_of_other_pictures_are_refused(
    command: tuple[object, ...], option: tuple[object, ...], reason: str, tmp_path: Path, mistake: Callable[..., str]
) -> None:
    wrong = mistake("draw", *command, *option, "--out", tmp_path / "x.svg")
    assert wrong == f"{option[0]}: is not for draw {reason}: leave it out"
    assert not list(tmp_path.iterdir())


def test_the_file_of_a_picture_is_checked_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    monkeypatch.setattr(command, "draw_tree", lambda tree: pytest.fail("drawn before the check"))
    monkeypatch.chdir(tmp_path)
    Path("tree.svg").write_text("(S a)")
    for out, reason in (
        ("no/tree.svg", "--out no/tree.svg: no directory no: make it first"),
        ("tree.gif", "tree.gif: name the picture .svg or .png"),
        ("tree.svg", "--out tree.svg: this command reads it: name another file"),
    ):
        assert mistake("draw", "tree", "tree.svg", "--out", out) == reason
    assert Path("tree.svg").read_text() == "(S a)"


@pytest.mark.parametrize("kind", ["tree", "mask"])
def test_a_tree_has_brackets(kind: str, tmp_path: Path, mistake: Callable[..., str]) -> None:
    give = 'give a tree with brackets, like "(S the bird)", or a file of trees'
    for text, reason in (
        ("", f"{kind}: the input is empty: {give}"),
        ("the blue bird", f"the blue bird: no such file: {give}"),
        ("bird " * 99, f"{'bird ' * 15}bi...: no such file: {give}"),
    ):
        assert mistake("draw", kind, text, "--out", tmp_path / "x.svg") == reason


@pytest.mark.parametrize("kind", ["distances", "chart", "parse"])
def test_a_sentence_is_no_file(
    kind: str, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my text").write_text("the dog\n")
    draw = ("draw", kind, "--checkpoint", run, "--out", "x.svg")
    use = """type "$(head -n 1 'my text')" for those of its first line"""
    assert mistake(*draw, "my text") == f"my text: a file, but draw {kind} takes the words of a sentence: {use}"
    assert mistake(*draw, " ") == f"{kind}: the input is empty: give the words of a sentence"
    assert "a file" not in mistake(*draw, "my", "text")


def test_the_number_of_a_tree_is_for_a_file(
    tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    draw = ("draw", "tree", "--out", tmp_path / "x.svg")
    wrong = mistake(*draw, TREES[0], "--number", 2)
    assert wrong == "--number: is for a file of trees, and a tree is given: leave it out"
    (tmp_path / "two.trees").write_text("".join(f"{tree}\n" for tree in TREES))
    pictures = []
    for option in ((), ("--number", 1), ("--number", 2)):
        grove(*draw, tmp_path / "two.trees", *option)
        pictures.append((tmp_path / "x.svg").read_text())
    assert pictures[0] == pictures[1] != pictures[2]


def test_a_typed_tree_is_read_as_one_of_a_file(
    tmp_path: Path, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    tree = "(S (NP-SBJ (NN dog)) (VP (VBZ sees) (NP (-NONE- *))))"
    (tmp_path / "one.trees").write_text(tree)
    pictures = []
    for argument in (tree, tmp_path / "one.trees"):
        options = ("--no-keep-tags", "--drop-traces", "--drop-function-tags", "--out", tmp_path / "x.svg")
        grove("draw", "tree", argument, *options)
        pictures.append((tmp_path / "x.svg").read_text())
    assert pictures[0] == pictures[1] and "NN" not in pictures[0] and "SBJ" not in pictures[0]
    wrong = mistake("draw", "tree", "(S (NP a dog))", "--no-keep-tags", "--out", tmp_path / "x.svg")
    assert wrong.startswith("(S (NP a dog)): not every word has a part-of-speech tag to drop")


def test_a_typed_tree_is_a_document_for_a_model_of_documents(tmp_path: Path, grove: Callable[..., str]) -> None:
    """Once, its attention was drawn without the actions that begin and end every document."""
    (tmp_path / "one.trees").write_text(f"{TREES[0]}\n")
    sizes = [f"--set={name}={value}" for name, value in TG.items()]
    data = ("--data", tmp_path / "one.trees", "--documents", "--keep-tags", "--vocabulary", "words", "--steps", 1)
    grove("train", *data, *sizes, "--out", tmp_path / "run")
    pictures = []
    for argument in (TREES[0], tmp_path / "one.trees"):
        grove("draw", "attention", argument, "--checkpoint", tmp_path / "run", "--out", tmp_path / "x.svg")
        pictures.append((tmp_path / "x.svg").read_text())
    assert pictures[0] == pictures[1] and pictures[0].count(">(DOC<") == 2


def test_a_mistake_in_the_target_names_its_option(tmp_path: Path, mistake: Callable[..., str]) -> None:
    draw = ("draw", "chart", "the dog", "--checkpoint", save_tiny(tmp_path / "treeformer", "treeformer"))
    for target, reason in (
        ("the zebra", "the word 'zebra' is not in the closed vocabulary"),
        (" ", "an empty sentence"),
    ):
        wrong = mistake(*draw, "--target", target, "--out", tmp_path / "x.svg")
        assert wrong.startswith(f"--target: {reason}")


def test_a_run_has_its_name_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, grove: Callable[..., str], mistake: Callable[..., str]
) -> None:
    """Once, the legend was empty for a run that is the current folder."""
    folders = tmp_path / "dogs", tmp_path / "cats", tmp_path / "star*"
    for folder in folders:
        folder.mkdir()
        (folder / METRICS).write_text('{"step": 1, "loss": 2.0}\n')
    monkeypatch.chdir(folders[0])
    for run in (".", METRICS, "../cats/../dogs"):
        grove("draw", "loss", run, folders[1], "--out", tmp_path / "x.svg")
        texts = (tmp_path / "x.svg").read_text()
        assert all(f">{name}, training</text>" in texts for name in ("dogs", "cats"))
    wrong = mistake("draw", "loss", folders[2], "--out", tmp_path / "x.svg")
    assert wrong == f"{folders[2]}: the name of a run cannot end with *: rename the directory"


def test_a_thick_curve_of_training_is_called_so(tmp_path: Path, grove: Callable[..., str]) -> None:
    """Once, the title called the training losses of a run without validations validation losses."""
    steps = '{"step": 1, "loss": 2.0}\n{"step": 2, "loss": 1.0%s}\n'
    for name, more in (("bare", ""), ("full", ', "validation_loss": 3')):
        (tmp_path / name).mkdir()
        (tmp_path / name / METRICS).write_text(steps % more)
    for runs, legend, title in (
        (("bare",), ["bare, training"], "Loss"),
        (("bare", "full"), ["bare, training", "full"], "Loss; thin: training, thick: validation"),
    ):
        grove("draw", "loss", *(tmp_path / name for name in runs), "--out", tmp_path / "x.svg")
        texts = re.findall(">([^<]*)</text>", (tmp_path / "x.svg").read_text())
        assert texts[-len(legend) :] == legend and title in texts


def test_a_picture_goes_to_standard_output(tmp_path: Path, grove: Callable[..., str]) -> None:
    grove("draw", "tree", TREES[0], "--out", tmp_path / "x.svg")
    assert grove("draw", "tree", TREES[0], "--out", "-") == (tmp_path / "x.svg").read_text()


def test_an_unrestricted_head_is_not_drawn_as_one_of_stack_and_compose(
    tmp_path: Path, grove: Callable[..., str]
) -> None:
    (tmp_path / "one.trees").write_text(f"{TREES[0]}\n")
    sizes = [f"--set={name}={value}" for name, value in TG.items()]
    data = ("--data", tmp_path / "one.trees", "--vocabulary", "words", "--keep-tags", "--steps", 1)
    grove("train", *data, *sizes, "--unrestricted-heads", 1, "--out", tmp_path / "run")
    for head, is_shown in (((), True), (("--head", 1), True), (("--head", 2), False)):
        draw = ("draw", "attention", TREES[0], "--checkpoint", tmp_path / "run", *head)
        assert (">COMPOSE<" in grove(*draw, "--out", "-")) == is_shown

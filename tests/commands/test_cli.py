"""Every command of `grove`, from its arguments to what it prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import accel
from accel import cli
from accel.evaluation.evalb import evalb
from accel.evaluation.evalb_input import COLLINS, with_tags
from accel.models.transformer_grammars import model as fast
from accel.trained.opening import Model
from accel.training import checkpoint
from refimpl.transformer_grammars import marginal
from refimpl.transformer_grammars import model as reference
from refimpl.trees import START, ActionType, Tree, action_type, actions, double_closing, words
from tests.fixtures.command_line import with_options
from tests.fixtures.toy_house import MODELS, House, train, write


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"))


def figures(text: str) -> dict[str, float]:
    """Return the numbers of a printed table, by their names."""
    return {line.rpartition("  ")[0].strip(): float(line.rpartition("  ")[2].split()[0]) for line in text.splitlines()}


def tokens(text: str, column: int) -> list[str]:
    return [line.split("\t")[column] for line in text.splitlines()[1:]]


def inputs(model: Model, tree: Tree) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ids, types and labels of a tree as the model's page defines them; the code of batches is not used."""
    number = {symbol: i for i, symbol in enumerate(model.vocabulary.symbols)}
    sequence = [START, *actions(tree)]
    if model.config.model == "txl_terminals":
        sequence = [START, *words(tree)]
        labels = [*(number[a] for a in sequence[1:]), number["</s>"]]
        types = [action_type(a) for a in sequence]
    elif model.config.model == "txl_cc":
        labels, types = [*(number[a] for a in sequence[1:]), -1], [action_type(a) for a in sequence]
    else:
        sequence, types = double_closing(sequence)
        following = [*(number[a] for a in sequence[1:]), -1]
        labels = [-1 if t == ActionType.CNT1 else label for t, label in zip(types, following, strict=True)]
    return np.array([number[a] for a in sequence]), np.array([int(t) for t in types]), np.array(labels)


def reference_logps(model: Model, tree: Tree, label: int | None = None) -> np.ndarray:
    """Return log p of every event of a tree; with `label`, return log p of that action in the place of every event."""
    names = {f.name for f in fields(reference.Config)}
    config = reference.Config(**{name: value for name, value in vars(model.config).items() if name in names})
    parameters = {name: value.astype(np.float64) for name, value in model.parameters.items()}
    ids, types, labels = inputs(model, tree)
    targets = labels if label is None else np.where(labels >= 0, label, -1)
    return reference.token_logps(config, parameters, ids, types, targets)[labels >= 0]


def test_a_trained_run_lies_in_its_directory(house: House) -> None:
    directory = house.folder / "tg"
    names = "best.safetensors cache checkpoint.safetensors config.json metrics.jsonl vocabulary.json"
    assert sorted(path.name for path in directory.iterdir()) == names.split()
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5, 6] and "validation_loss" in lines[-1]
    state = checkpoint.read_state(directory / "best.safetensors")
    assert state["config"]["d_ff"] == 24 and state["training"]["warmup_steps"] == 2


def test_a_run_resumes_with_the_options_it_was_started_with(
    house: House, tmp_path: Path, grove: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    more = ("--validation", str(house.valid), "--set", "checkpoint_every=2")
    right, calls = fast.loss_and_grad, iter(range(100))

    def interrupted(*arguments: object, **options: object) -> object:
        if next(calls) == 5:
            raise KeyboardInterrupt
        return right(*arguments, **options)

    monkeypatch.setattr(fast, "loss_and_grad", interrupted)
    assert cli.main(train(tmp_path / "run", house.data, *more)) == 130
    assert checkpoint.read_state(tmp_path / "run" / "checkpoint.safetensors")["step"] == 4
    assert grove("train", "--out", tmp_path / "run", "--resume") == f"{tmp_path}/run/best.safetensors\n"
    losses = [
        [json.loads(line)["loss"] for line in (folder / "metrics.jsonl").read_text().splitlines()]
        for folder in (tmp_path / "run", house.folder / "tg")
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_the_reference_s(house: House, name: str, grove: Callable[..., str]) -> None:
    model = house.model(name)
    logps = np.array([float(line) for line in grove("score", *house.checkpoints(name), house.valid).splitlines()])
    expected = [reference_logps(model, tree) for tree in house.gold]
    np.testing.assert_allclose(logps, [x.sum() for x in expected], rtol=3e-6)
    table = grove("score", *house.checkpoints(name), house.valid, "--tokens")
    np.testing.assert_allclose(np.array(tokens(table, 3), float), np.concatenate(expected), rtol=1e-5, atol=2e-6)
    symbols = [[*words(tree), "</s>"] if name == "words" else actions(tree) for tree in house.gold]
    assert tokens(table, 1) == [token for group in symbols for token in group]
    assert tokens(table, 0) == [str(i) for i, group in enumerate(symbols, 1) for _ in group]
    type_of = {"</s>": "T"} | {a: action_type(a).name.removesuffix("1") for tree in house.gold for a in actions(tree)}
    assert tokens(table, 2) == [type_of[token] for token in tokens(table, 1)]


def test_batches_of_any_size_give_the_same_scores(house: House, grove: Callable[..., str]) -> None:
    one, many = (grove("score", *house.checkpoints("tg"), house.flat, "--batch-size", n).splitlines() for n in (1, 50))
    np.testing.assert_allclose(np.array(one, float), np.array(many, float), rtol=1e-5)


@pytest.mark.parametrize("ensemble", ["mixture", "product"])
def test_an_ensemble_of_copies_is_the_model(house: House, ensemble: str, grove: Callable[..., str]) -> None:
    once = grove("score", *house.checkpoints("tg"), house.valid).splitlines()
    twice = grove("score", *house.checkpoints("tg", "tg"), house.valid, "--ensemble", ensemble).splitlines()
    np.testing.assert_allclose(np.array(twice, float), np.array(once, float), rtol=3e-6)


def test_ensembles_of_different_models_mix_event_by_event(house: House, grove: Callable[..., str]) -> None:
    """The whole distributions of the reference are mixed. A Transformer Grammar has more positions than events."""
    tree = min(house.gold, key=lambda tree: len(actions(tree)))
    path = write(house.folder / "short.trees", [tree])
    models = [house.model("tg"), house.model("txl_cc")]
    v = len(models[0].vocabulary)
    whole = np.array([[reference_logps(model, tree, label) for label in range(v)] for model in models])
    np.testing.assert_allclose(np.exp(whole).sum(axis=1), 1.0)
    rows = np.arange(whole.shape[2]), inputs(models[1], tree)[2][:-1]
    for ensemble, expected in (
        ("mixture", marginal.mixture_logp(whole).T[rows]),
        ("product", marginal.product_logp(whole.transpose(0, 2, 1))[rows]),
    ):
        table = grove("score", *house.checkpoints("tg", "txl_cc"), path, "--tokens", "--ensemble", ensemble)
        np.testing.assert_allclose(np.array(tokens(table, 3), float), expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("names", [("tg",), ("tg", "txl_cc")], ids=["one model", "ensemble"])
def test_perplexity_of_trees_is_the_bound_of_different_proposals(
    house: House, names: tuple[str, ...], grove: Callable[..., str]
) -> None:
    logps = [float(line) for line in grove("score", *house.checkpoints(*names), house.flat).splitlines()]
    ends = np.cumsum([0, *map(len, house.proposed)])
    sentences = [marginal.sentence_logp(logps[a:b]) for a, b in pairwise(ends)]
    n_words = sum(len(words(tree)) for tree in house.gold)
    text = grove("perplexity", *house.checkpoints(*names), "--proposals", house.proposals)
    values = figures(text)
    assert "upper bound" in text
    assert values["perplexity"] == pytest.approx(marginal.perplexity(sentences, n_words), rel=1e-5)
    assert values["words"] == n_words and values["sentences"] == len(house.gold)
    assert values["mean proposals"] == pytest.approx(len(logps) / len(house.gold), abs=0.01)
    assert grove("perplexity", *house.checkpoints(*names), "--proposals", house.numbered, "--numbered") == text
    single = figures(grove("perplexity", *house.checkpoints(*names), "--trees", house.valid))
    assert single["perplexity"] > values["perplexity"] and single["mean proposals"] == 1


def test_perplexity_of_words_is_exact(house: House, grove: Callable[..., str]) -> None:
    logps = [float(line) for line in grove("score", *house.checkpoints("words"), house.valid).splitlines()]
    text = grove("perplexity", *house.checkpoints("words"), "--proposals", house.proposals)
    n_words = sum(len(words(tree)) for tree in house.gold)
    assert "exact" in text
    assert figures(text)["perplexity"] == pytest.approx(marginal.perplexity(logps, n_words), rel=1e-5)
    both = grove("perplexity", *house.checkpoints("words"), "--proposals", house.proposals, "--count-ends")
    ends = [line for line in both.splitlines() if line not in text.splitlines()]
    with_ends = marginal.perplexity(logps, n_words + len(logps))
    assert figures("\n".join(ends)) == pytest.approx({"ends counted": with_ends, "ends": len(logps)}, rel=1e-5)


def test_reranking_takes_the_most_probable_proposal(house: House, tmp_path: Path, grove: Callable[..., str]) -> None:
    logps = [float(line) for line in grove("score", *house.checkpoints("tg"), house.flat).splitlines()]
    ends = np.cumsum([0, *map(len, house.proposed)])
    best = [group[int(np.argmax(logps[a:b]))] for group, (a, b) in zip(house.proposed, pairwise(ends), strict=True)]
    common = ("rerank", *house.checkpoints("tg"), "--proposals", house.proposals, "--gold")
    text = grove(*common, house.valid, "--out", tmp_path / "chosen")
    assert (tmp_path / "chosen").read_text() == "".join(f"{tree}\n" for tree in best)

    def score(tag: Callable[[str], str], parameters: object = COLLINS) -> float:
        gold, predictions = ([with_tags(t, [tag(w) for w in words(t)]) for t in side] for side in (house.gold, best))
        return round(evalb(gold, predictions, parameters).f1, 2)

    assert "punctuation counts" in text
    assert float(text.splitlines()[0].split()[1]) == score(lambda word: "WORD")
    tagged = [with_tags(tree, ["." if word == "." else "X" for word in words(tree)]) for tree in house.gold]
    text = grove(*common, write(tmp_path / "tagged", tagged))
    assert "punctuation counts" not in text
    assert figures(text)["F1"] == score(lambda word: "." if word == "." else "X")
    (tmp_path / "loose.prm").write_text("LABELED 0\n")
    loose = figures(grove(*common, house.valid, "--parameters", tmp_path / "loose.prm").rpartition("tags")[0])
    assert loose["F1"] > score(lambda word: "WORD")


def test_tags_documents_and_pieces_from_training_to_scoring(
    house: House, tmp_path: Path, grove: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A scored file is read with the options of the training file, unless the command gives others."""
    tagged = [with_tags(tree, ["X"] * len(words(tree))) for tree in house.gold * 3]
    data = tmp_path / "documents.trees"
    data.write_text("".join(f"{tree}\n" + "\n" * (i % 3 == 2) for i, tree in enumerate(tagged)))
    others = ("--keep-tags", "--vocabulary=words")
    options = [option for option in train(tmp_path / "run", data) if option not in others]
    more = ("--documents", "--vocabulary", "sentencepiece", "--vocabulary-size", 310, "--model", "txl_cc")
    grove(*with_options(options, *more, "--cache", tmp_path / "cache"))
    scores = grove("score", "--checkpoint", tmp_path / "run", data).splitlines()
    assert len(scores) == 12
    table = grove("score", "--checkpoint", tmp_path / "run", data, "--tokens")
    assert tokens(table, 1)[0] == "(DOC" and "(X" not in tokens(table, 1)
    untagged = tmp_path / "untagged.trees"
    untagged.write_text("".join(f"{tree}\n" + "\n" * (i % 3 == 2) for i, tree in enumerate(house.gold * 3)))
    assert grove("score", "--checkpoint", tmp_path / "run", untagged, "--keep-tags").splitlines() == scores
    untagged.write_text(data.read_text().replace(str(tagged[4]), "(S Mary sang)", 1))
    assert cli.main(["score", "--checkpoint", str(tmp_path / "run"), str(untagged), "--leave-out-untagged"]) == 1
    assert [line == "-" for line in capsys.readouterr().out.splitlines()] == [number == 1 for number in range(12)]
    exact = figures(grove("perplexity", "--checkpoint", tmp_path / "run", "--trees", data))
    assert exact["sentences"] == 12 and exact["words"] == 3 * sum(len(words(tree)) for tree in house.gold)


def test_a_tree_100_000_levels_deep_is_scored(house: House, grove: Callable[..., str]) -> None:
    depth = 100_000
    path = house.folder / "deep.trees"
    path.write_text("(S " * depth + "Mary" + ")" * depth + "\n")
    assert float(grove("score", *house.checkpoints("long"), path)) < -depth


def test_backends_are_listed(grove: Callable[..., str]) -> None:
    lines = grove("backends").splitlines()
    assert [line.split()[0] for line in lines] == list(accel.BACKENDS) and lines[1] == "cpu   runs here"


def test_verify_prints_a_table(capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--only", "layer_norm", "--only", "double_closing", "--examples", "2"]
    assert cli.main(["verify", "cpu", *options]) == 0
    table = capfd.readouterr().out.splitlines()
    assert [line.split()[:3] for line in table[1:3]] == [["double_closing", "2", "2"], ["layer_norm", "2", "2"]]
    assert table[-1] == "2 of 2 operations agree with the reference"


def test_the_number_of_threads_is_set_before_anything_is_imported() -> None:
    program = "import sys\nfrom accel import cli\nstatus = cli.main(['backends', '--threads', '1'])\nimport numba\n"
    program += "assert numba.config.NUMBA_NUM_THREADS == 1\nsys.exit(status)"
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    root = Path(__file__).parents[2]
    process = subprocess.run([sys.executable, "-c", program], cwd=root, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_closed_streams_are_empty_or_drop_what_is_written(closed: tuple[int, ...], tmp_path: Path) -> None:
    """A command with closed standard streams writes its messages to no file and to no stream that is open."""
    wrong = f"cli.main(['prepare', 'text', '-', '--convention', 'plain', '--out', '{tmp_path}/out'])"
    right = f"cli.main(['draw', 'tree', '(S it)', '--out', '{tmp_path}/tree.svg'])"
    program = f"import sys\nfrom accel import cli\nsys.exit(10 * {wrong} + {right})"
    redirections = " ".join(f"{number}{'<>'[number > 0]}&-" for number in closed)
    command = ("sh", "-c", f'exec "$0" -c "$1" {redirections}', sys.executable, program)
    root = Path(__file__).parents[2]
    process = subprocess.run(command, cwd=root, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert process.returncode == 20, process.stderr
    assert process.stdout == ("" if 1 in closed else f"{tmp_path}/tree.svg\n")
    assert process.stderr == ("" if 2 in closed else "grove: error: <stdin>: an empty file\n")
    assert [path.name for path in tmp_path.iterdir()] == ["tree.svg"]
    assert (tmp_path / "tree.svg").read_text().endswith("</svg>\n")

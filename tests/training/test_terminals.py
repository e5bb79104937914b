"""TXL (terminals): its vocabulary has no labels; a run whose vocabulary has them is resumed and scored as before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import accel
from accel.data.corpora.sequences import read_treebank
from accel.data.corpora.treebank import encode_trees
from accel.data.vocabularies.building import build
from accel.scoring.trees import tree_logps
from accel.trained.ensembles import check_ensemble
from accel.trained.opening import open_model
from accel.training.directory import VOCABULARY, write_text
from refimpl.trees import Tree, words
from tests.fixtures.command_line import Grove
from tests.fixtures.toy_house import House, train

OPS = accel.load("cpu")
WORDS = ("--model", "txl_terminals")


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> House:
    return House(tmp_path_factory.mktemp("house"), ("words",))


def test_its_ids_are_those_of_words(house: House) -> None:
    """It lacks the two ids of every label (Figure 9: 23,835 ids, not 23,888), and reads trees as their words."""
    vocabulary, of_trees = house.model("words").vocabulary, build(read_treebank(house.data))
    assert vocabulary.labels == () and vocabulary.terminals == of_trees.terminals
    assert len(vocabulary) == len(of_trees) - 2 * len(of_trees.labels) == house.model("words").config.vocabulary_size
    bare = [Tree("S", tuple(words(tree))) for tree in house.gold]
    assert vocabulary.encode(house.gold[0]) == vocabulary.encode_words(words(house.gold[0]))
    a, b = (encode_trees(trees, vocabulary) for trees in (house.gold, bare))
    assert a.actions.tolist() == b.actions.tolist() and a.terminals.tolist() == a.words.tolist()


@pytest.mark.parametrize("kind", ["unknown_classes", "sentencepiece"])
def test_documents_and_other_vocabularies(house: House, tmp_path: Path, run_grove: Grove, kind: str) -> None:
    documents = tmp_path / "documents.trees"
    documents.write_text("\n".join(f"{tree}\n{tree}\n" for tree in house.gold), encoding="utf-8")
    options = ("--documents", f"--vocabulary={kind}", "--steps=4", "--validation", str(documents))
    assert run_grove(*train(tmp_path / "run", documents, *WORDS, *options))[0] == 0
    model = open_model(OPS, tmp_path / "run")
    corpus = encode_trees(read_treebank(documents, model.reading), model.vocabulary)
    assert model.vocabulary.labels == () and len(corpus) == len(house.gold)
    assert corpus.words.tolist() == [2 * len(words(tree)) for tree in house.gold]


def test_a_run_with_labels_resumes_and_scores_as_before(house: House, tmp_path: Path, run_grove: Grove) -> None:
    directory, vocabulary = tmp_path / "old", build(read_treebank(house.data))
    directory.mkdir()
    write_text(directory / VOCABULARY, vocabulary.to_json())
    for steps in (3, 6):
        assert run_grove(*train(directory, house.data, *WORDS, "--resume", f"--steps={steps}"))[0] == 0
        assert open_model(OPS, directory).vocabulary == vocabulary
    status, out, _ = run_grove("score", "--checkpoint", directory, house.valid)
    assert status == 0 and len(out.splitlines()) == len(house.gold)


def test_text_ends_or_has_the_words_asked_for(house: House, run_grove: Grove) -> None:
    status, out, _ = run_grove("generate", *house.checkpoints("words"), "--prefix", "the", "--words", 3)
    assert status == 0 and out.split()[0] == "the" and 1 <= len(out.split()) <= 4


def test_labels_that_are_impossible_change_no_probability(house: House) -> None:
    new, vocabulary = house.model("words"), build(read_treebank(house.data))
    more = 2 * len(vocabulary.labels)
    rows = {"embedding": np.zeros((more, new.config.d_model), np.float32), "output_bias": np.full(more, -1e9, "f4")}
    parameters = new.parameters | {name: np.concatenate([new.parameters[name], x]) for name, x in rows.items()}
    config = replace(new.config, vocabulary_size=len(vocabulary))
    old = replace(new, vocabulary=vocabulary, config=config, parameters=parameters)
    logps = [list(tree_logps(OPS, [model], encode_trees(house.gold, model.vocabulary))) for model in (new, old)]
    np.testing.assert_allclose(*logps, rtol=1e-6)
    with pytest.raises(ValueError, match="its vocabulary differs"):
        check_ensemble([new, old])

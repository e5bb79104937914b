"""The examples, shortened to seconds: they run, their losses fall, their reports are complete."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from accel.data.generated.grammar import CONSTRUCTIONS, ENGLISH
from examples.commands import EXPECTED, compare
from examples.transformer_grammars import demo, train
from refimpl.trees import Tree

SHORT = ["--steps", "8", "--sentences", "400", "--test", "4", "--proposals", "3", "--pairs", "3"]


def losses(directory: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (directory / "metrics.jsonl").read_text().splitlines()]


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = demo.main(["--out", str(tmp_path), *SHORT])
    for name in demo.MODELS:
        every = losses(tmp_path / name)
        assert len(every) == 8 and every[-1] < every[0]
        assert figures["models"][name]["perplexity"] > figures["floor"]
        assert figures["models"][name]["agreement"].keys() == CONSTRUCTIONS.keys()
    html = (tmp_path / "report.html").read_text()
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    assert len(pictures) == 4 and html.count("<table>") == 2
    for picture in pictures:
        ElementTree.fromstring(picture)
    markdown = (tmp_path / "report.md").read_text()
    linked = re.findall(r"\]\((.*?)\)", markdown)
    assert linked == ["losses.svg", "tree.svg", "mask.svg", "attention.svg"]
    assert all((tmp_path / name).exists() for name in linked)
    assert all(construction.replace("_", " ") in markdown for construction in CONSTRUCTIONS)
    assert json.loads((tmp_path / "figures.json").read_text()) == figures
    assert (
        "perplexity" in capsys.readouterr().out.partition("figures are not as expected")[2]
    )  # 8 steps do not learn it
    again = demo.main(["--out", str(tmp_path), *SHORT])
    assert again["models"] == figures["models"]  # complete runs are only measured again


def test_expected_figures_are_complete() -> None:
    expected = json.loads(Path(demo.__file__).with_name(EXPECTED).read_text())["demo"]
    assert expected.keys() == demo.MODELS.keys()
    names = demo.flat({"perplexity": 1.0, "agreement": dict.fromkeys(CONSTRUCTIONS, 1.0)}).keys()
    exact = {model: {name: value for name, (value, _) in figures.items()} for model, figures in expected.items()}
    assert all(figures.keys() == names for figures in exact.values())
    assert compare(demo.__file__, exact) == []
    exact["tg"]["perplexity"] = float("nan")
    assert compare(demo.__file__, exact) == ["  tg, perplexity: nan, expected 9.322 ± 0.1"]


def tagged(tree: Tree) -> str:
    return re.sub(r" ([^ ()]+)", r" (X \1)", str(tree))


def test_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    for seed, (split, count) in enumerate({"train": 60, "valid": 6, "test": 6}.items()):
        (data / f"{split}.txt").write_text("".join(f"{tagged(tree)}\n" for tree in ENGLISH.sample(count, seed)))
    size = [
        "--steps",
        "20",
        "--rate",
        "1e-2",
        "--batch-size",
        "4",
        "--d-model",
        "16",
        "--layers",
        "1",
        "--heads",
        "2",
        "--seeds",
        "2",
    ]
    arguments = ["--data", str(data), "--out", str(out), *size, "--vocabulary-size", "120"]
    train.main(arguments)
    table = (out / "table.md").read_text()
    assert [line.split(" | ")[0] for line in table.splitlines()[2:]] == ["| TG", "| TXL (CC)", "| TXL (terminals)"]
    assert table.count("±") == 15 and table.count("≤") == 4
    results = json.loads((out / "results.json").read_text())
    assert len(results) == 6 and all(result["test"]["loss"] > 0 for result in results)
    assert losses(out / "tg-1")[-1] < losses(out / "tg-1")[0]
    (out / "tg-1" / "result.json").unlink()
    capsys.readouterr()
    train.main(arguments)  # it resumes this run at its last step; the others are complete
    assert capsys.readouterr().out.count("complete") == 5
    assert (out / "table.md").read_text() == table
    train.main(["--out", str(out), "--table"])
    assert capsys.readouterr().out.strip() == table.strip()
    with pytest.raises(SystemExit, match="tg-0: was trained with other rate, steps: give another --out"):
        train.main([*arguments, "--steps", "30", "--rate", "1e-3"])


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--data: name a directory"):
        train.main(["--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="0 files are named train"):
        train.main(["--out", str(tmp_path), "--data", str(tmp_path)])
    with pytest.raises(SystemExit, match="holds no complete run"):
        train.main(["--out", str(tmp_path), "--table"])

"""The programs of Treeformer's depth, H and speed, shortened to seconds: they run, resume, tabulate and draw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from examples.treeformer import sizes, speed

SMALL = ("--set", "d_model=8", "--set", "d_ff=8", "--set", "n_heads=2", "--set", "n_layers=1")
SHORT = ("--depths", "1", "--heights", "1", "--height-depth", "1", "--steps", "2")
COGS = "\n".join(f"The {noun} slept .\t* {noun} ( 1 ) ; sleep . agent ( 2 , 1 )\tin" for noun in ("cat", "dog")) + "\n"


def test_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sacrebleu", reason="the extra translate is not installed")
    call = [*SHORT, *SMALL, "--out", str(tmp_path), "--seeds", "2", "--sentences", "600", "--test", "2"]
    rows = sizes.main(call)
    out = capsys.readouterr().out
    assert out.count("$ grove train") == 10 and "| Treeformer, paper | 1 | 10 |" in out
    assert [(row["model"], row["H"]) for row in rows] == [
        ("Transformer", None), ("Treeformer, paper", 10), ("Treeformer, released", 10),
        ("Treeformer, paper", 1), ("Treeformer, released", 1),
    ]  # fmt: skip
    plain, paper, released, *_ = (row["found"][0]["parameters"] for row in rows)
    assert plain < paper < released and all(len(row["found"]) == 2 for row in rows)
    result = json.loads((tmp_path / "sizes.json").read_text())
    assert result["found"] == rows and result["seeds"] == [0, 1] and result["data"] and result["hours"] > 0
    picture = (tmp_path / "sizes.svg").read_text()
    for words in ("layers of the encoder", "parameters, thousands", "H; layers of the encoder: 1", *sizes.CHARTS):
        assert words in picture
    assert sizes.main(call) == rows and "$ grove train" not in capsys.readouterr().out  # complete runs are kept


def test_sizes_of_cogs(tmp_path: Path) -> None:
    for part in ("train", "dev", "test", "gen"):
        (tmp_path / f"{part}.tsv").write_text(COGS, encoding="utf-8")
    files = ("--task", "cogs", "--data", str(tmp_path), "--out", str(tmp_path / "out"))
    rows = sizes.main([*SHORT, *SMALL, *files, "--seeds", "1"])
    assert all(0 <= row["found"][0][name] <= 100 for row in rows for name in ("test", "gen"))


def test_sizes_of_translation(tmp_path: Path) -> None:
    pytest.importorskip("sacrebleu", reason="the extra translate is not installed")
    for stem in ("train", "valid", "test"):
        for end in ("de", "en"):
            (tmp_path / f"{stem}.{end}").write_text("a b c\nb a\n" * 4, encoding="utf-8")
    files = ("--task", "translation", "--data", str(tmp_path), "--source", "de", "--target", "en")
    rows = sizes.main([*SHORT, *SMALL, *files, "--vocabulary", "words", "--seeds", "1", "--out", str(tmp_path / "out")])
    assert all(0 <= row["found"][0]["BLEU"] <= 100 for row in rows)


def test_a_task_without_its_data_is_refused() -> None:
    with pytest.raises(SystemExit, match="sizes: --data: "):
        sizes.main(["--task", "cogs"])


@pytest.mark.parametrize(
    ("name", "layers", "height"), [("transformer-1", "1", "0"), ("treeformer-2-0", "2", "0"),
                                   ("treeformer_released-3-5", "3", "5")]
)  # fmt: skip
def test_a_model_has_the_layers_and_the_height_of_its_name(name: str, layers: str, height: str, tmp_path: Path) -> None:
    arguments = ("--task", "cogs", "--data", str(tmp_path), "--steps", "7", "--set", "d_ff=9", "--set", "max_height=3")
    command = sizes.training(sizes._parser().parse_args(arguments), sizes.variant_of(name), 2)
    options = dict(zip(command[::2], command[1::2], strict=True))
    assert options | {"--set": ""} == {
        "--task": "cogs", "--data": str(tmp_path), "--model": name.split("-")[0], "--seed": "2", "--steps": "7",
        "--batch-size": "4096", "--set": "",
    }  # fmt: skip
    settings = [value for option, value in zip(command[::2], command[1::2], strict=True) if option == "--set"]
    assert settings == ["d_ff=9", f"max_height={height}", f"n_encoder_layers={layers}"]


def test_no_model_is_trained_twice() -> None:
    names = [variant.name for variant in sizes.variants([1, 2, 3], [1, 10, 0], 2)]
    assert len(names) == len(set(names)) == 13
    assert {name for name in names if name.startswith("treeformer-2")} == {f"treeformer-2-{h}" for h in (1, 10, 0)}


def test_speed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ("--d-model", "8", "--layers", "1", "--batch", "2", "--repeats", "3")
    rows = speed.main([*small, "--lengths", "3", "5", "--out", str(tmp_path)])
    assert [row["length"] for row in rows] == [3, 5] and "| tokens |" in capsys.readouterr().out
    for row in rows:
        for middle, least, greatest in row["median, least, greatest"].values():
            assert 0 < least <= middle <= greatest
        assert speed.relative(row, "Transformer") == 100
    assert "% of the Transformer" in (tmp_path / "speed.svg").read_text()

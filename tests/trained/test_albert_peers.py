"""ALBERT against two other implementations: PyTorch's own layers, combined as in the paper, and `transformers`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accel.models.albert import model as albert
from accel.models.albert.config import Config
from accel.models.passes import scoring
from accel.trained.albert_weights import read_albert
from tests.fixtures.albert_files import SETTINGS, TEXT, config_of, pieces, published, write_albert
from tests.fixtures.cpu_backend import CPU

LENGTHS = [5, 1, 9]
ACTIVATIONS = ["gelu_new", "gelu"]


def drawn(config: Config) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    shapes = albert.parameter_shapes(config).items()
    return {
        name: (draw.standard_normal(shape) * 0.3 + name.endswith("scale")).astype(np.float32) for name, shape in shapes
    }


def batch_of(config: Config) -> SimpleNamespace:
    """Return a batch of sequences in which every other token has a label."""
    draw = np.random.default_rng(2)
    offsets = np.cumsum([0, *LENGTHS])
    ids = draw.integers(0, config.vocabulary_size, offsets[-1]).astype(np.int32)
    labels = np.where(np.arange(len(ids)) % 2, -1, draw.integers(0, config.vocabulary_size, len(ids))).astype(np.int32)
    return SimpleNamespace(ids=ids, offsets=offsets, labels=labels, n_labels=int((labels >= 0).sum()))


def padded(torch: ModuleType, batch: SimpleNamespace) -> tuple[Any, Any, Any]:
    """Return ids, labels (-100: none) and the mask of real tokens, each [B, longest]."""
    shape = (len(LENGTHS), max(LENGTHS))
    ids, labels, real = np.zeros(shape, int), np.full(shape, -100), np.zeros(shape, int)
    for b, n in enumerate(LENGTHS):
        row = slice(batch.offsets[b], batch.offsets[b] + n)
        ids[b, :n], real[b, :n] = batch.ids[row], 1
        labels[b, :n] = np.where(batch.labels[row] < 0, -100, batch.labels[row])
    return torch.from_numpy(ids), torch.from_numpy(labels), torch.from_numpy(real)


def compare(batch: SimpleNamespace, config: Config, p: dict[str, np.ndarray], h: Any, gradients: Any) -> None:
    """Compare outputs to 1e-5, each gradient to 1e-4 of its maximum; that of the keys' bias is 0 (ED-1, L4)."""
    rows = np.concatenate([h[b, :n] for b, n in enumerate(LENGTHS)])
    encoded = albert._encode(scoring(CPU, config, p), albert._layout(CPU, config, batch)).value
    np.testing.assert_allclose(encoded, rows, rtol=1e-5, atol=1e-5)
    _, ours, _ = albert.loss_and_grad(CPU, config, p, batch)
    names = published(ours)
    for name, theirs in gradients.items():
        greatest = np.abs(gradients[name.replace("key.bias", "key.weight")]).max()
        np.testing.assert_allclose(names[name], theirs, rtol=0, atol=1e-4 * greatest, err_msg=name)
    assert gradients.keys() >= {name for name in names if not name.startswith("pooler")} - {"predictions.bias"}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_beside_layers_of_pytorch(activation: str) -> None:
    """Lan et al. (2020), section 3.1: one `TransformerEncoderLayer` with the norm last is applied three times."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")
    config = replace(config_of(13), activation=activation)
    p, batch = drawn(config), batch_of(config)
    t = {name: torch.from_numpy(x).requires_grad_() for name, x in p.items()}
    gelu = torch.nn.GELU(approximate="tanh" if activation == "gelu_new" else "none")
    layer = torch.nn.TransformerEncoderLayer(8, 2, 10, 0.0, gelu, layer_norm_eps=1e-12, batch_first=True)
    three = [f"layer.attention.{name}" for name in ("query", "key", "value")]
    weights = {
        "self_attn.in_proj_weight": torch.cat([t[name].T for name in three]),
        "self_attn.in_proj_bias": torch.cat([t[f"{name}_bias"] for name in three]),
        "self_attn.out_proj.weight": t["layer.attention.output"].T,
        "self_attn.out_proj.bias": t["layer.attention.output_bias"],
        "linear1.weight": t["layer.feed_forward.in"].T,
        "linear1.bias": t["layer.feed_forward.in_bias"],
        "linear2.weight": t["layer.feed_forward.out"].T,
        "linear2.bias": t["layer.feed_forward.out_bias"],
    }
    for theirs, mine in (("norm1", "attention_norm"), ("norm2", "feed_forward_norm")):
        weights |= {f"{theirs}.weight": t[f"layer.{mine}.scale"], f"{theirs}.bias": t[f"layer.{mine}.bias"]}
    ids, labels, real = padded(torch, batch)

    def norm(x: Any, name: str) -> Any:
        return torch.nn.functional.layer_norm(x, (6,), t[f"{name}.scale"], t[f"{name}.bias"], 1e-12)

    x = t["embedding"][ids] + t["position"][: ids.shape[1]] + t["type"][0]
    x = norm(x, "embedding_norm") @ t["widen"] + t["widen_bias"]
    for _ in range(3):
        x = torch.func.functional_call(layer, weights, (x,), {"src_key_padding_mask": real == 0})
    narrow = norm(gelu(x @ t["narrow"] + t["narrow_bias"]), "narrow_norm")
    logits = narrow @ t["embedding"].T + t["output_bias"]
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum").backward()
    gradients = {name: x.grad.numpy() for name, x in t.items() if x.grad is not None}
    compare(batch, config, p, x.detach().numpy(), published(gradients))


@pytest.fixture(scope="module")
def transformers() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")
        package = pytest.importorskip("transformers", reason="transformers is not installed: make test-frameworks")
        assert package.AlbertForMaskedLM and package.AlbertTokenizer  # loaded here, with their warnings
    return package


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_beside_transformers(tmp_path: Path, transformers: ModuleType, activation: str) -> None:
    """The package writes a model with random weights, and Grove reads it."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")
    n_words = len(pieces())
    theirs = transformers.AlbertForMaskedLM(
        transformers.AlbertConfig(**(SETTINGS | {"vocab_size": n_words, "hidden_act": activation}))
    ).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for x in theirs.parameters():
            x += 0.3 * torch.randn(x.shape, generator=draw)
    theirs.save_pretrained(tmp_path)
    (tmp_path / "spiece.model").write_bytes(pieces().model)
    config, weights, _ = read_albert(tmp_path)
    p = {name: x for name, x in albert.initialise(config, 0).items() if name.startswith("pooler")} | weights
    batch = batch_of(config)
    ids, labels, real = padded(torch, batch)
    out = theirs(input_ids=ids, attention_mask=real, labels=labels, output_hidden_states=True)
    (out.loss * batch.n_labels).backward()
    gradients = {
        name.removeprefix("albert."): x.grad.numpy() for name, x in theirs.named_parameters() if x.grad is not None
    }
    compare(batch, config, p, out.hidden_states[-1].detach().numpy(), gradients)


@pytest.mark.filterwarnings("ignore")
def test_words_beside_transformers(tmp_path: Path, transformers: ModuleType) -> None:
    folder = write_albert(tmp_path / "model", drawn(config_of(len(pieces()))))
    tokenizer = transformers.AlbertTokenizer.from_pretrained(folder)
    vocabulary = pieces()
    first, separator = vocabulary.ids["[CLS]"], vocabulary.ids["[SEP]"]
    lines = [*dict.fromkeys(TEXT), "Na\u00efve  ASKS \u4e00\u4e8c why?!", "x\u00adyz \u2014 \u00bd \ufb01", "9, 10,000"]
    for line in lines:
        ids = vocabulary.encode_words(line.split())
        assert [first, *ids, separator] == tokenizer(line)["input_ids"], line
    pair = tokenizer(lines[0], lines[1], return_token_type_ids=True)
    a, b = (vocabulary.encode_words(line.split()) for line in lines[:2])
    assert pair["input_ids"] == [first, *a, separator, *b, separator]
    assert pair["token_type_ids"] == [0] * (len(a) + 2) + [1] * (len(b) + 1)

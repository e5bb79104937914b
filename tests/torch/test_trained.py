"""Trained models inside PyTorch, the same training in both libraries, and weights from one to the other and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import accel
from accel import cpu, trained
from accel.data.batches.assemble import assemble, encode_sequences
from accel.models.transformer_grammars import model as transformer_grammar
from tests.fixtures.tiny_runs import save_tiny
from tests.fixtures.transformer_grammar_models import BASE, CORPUS, VOCABULARY, parameters_of

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")

import torch.nn.functional as F  # noqa: E402

import accel.torch as grove  # noqa: E402


class LanguageModel(torch.nn.Module):
    """The language model of a run: a stack between an embedding and an output layer with the same weights."""

    def __init__(self, run: Path) -> None:
        super().__init__()
        weights, config = grove.load_weights(run), trained.open(run).config
        self.embedding = torch.nn.Parameter(weights["embedding"])
        self.output_bias = torch.nn.Parameter(weights["output_bias"])
        sizes, rate = config.stack.hidden_sizes, config.weight_drop
        self.cells = grove.OnLstm(config.embedding_size, sizes, config.chunk_size, kind=config.kind, weight_drop=rate)
        self.load_state_dict(weights)

    def forward(self, ids: Any) -> Any:
        """Return the log-probabilities [B, T, V] of the next words of ids [B, T]."""
        return F.linear(self.cells(self.embedding[ids]).output, self.embedding, self.output_bias).log_softmax(-1)


@pytest.mark.parametrize("name", ["fasttrees", "lstm"])
def test_a_language_model_gives_the_same_log_probabilities(tmp_path: Path, name: str) -> None:
    run = save_tiny(tmp_path / "run", name)
    model, words = trained.open(run), "the old dog sees her cat".split()
    ids = torch.tensor([[0, *model.vocabulary.encode(words)]])  # after the end of the line before
    logps = LanguageModel(run).eval()(ids)[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
    expected = [score for _, score in model.token_score(" ".join(words))[0]]
    np.testing.assert_allclose(logps.detach().numpy(), expected, rtol=0, atol=1e-5)


class TransformerGrammar(torch.nn.Module):
    """A Transformer Grammar without memory and dropout, from Grove's attention and PyTorch's other layers."""

    def __init__(self, config: Any, p: dict[str, Any]) -> None:
        super().__init__()
        self.config, self.p = config, p
        least, most = config.relative_min, config.relative_max
        self.attention = torch.nn.ModuleList()
        for layer in range(config.n_layers):
            attention = grove.StackComposeAttention(
                config.d_model, config.n_heads, relative_min=least, relative_max=most
            )
            prefix = f"layers.{layer}.attention."
            weights = {name.removeprefix(prefix): x for name, x in p.items() if name.startswith(prefix)}
            attention.double().load_state_dict(weights)
            self.attention.append(attention)

    def norm(self, x: Any, name: str) -> Any:
        return F.layer_norm(x, x.shape[-1:], self.p[f"{name}.scale"], self.p[f"{name}.bias"])

    def forward(self, ids: Any, types: Any, offsets: Any) -> Any:
        p, h = self.p, self.p["embedding"][ids]
        for layer, attention in enumerate(self.attention):
            name = f"layers.{layer}"
            h = self.norm(h + attention(h, types, offsets=offsets), f"{name}.attention_norm")
            inner = F.gelu(h @ p[f"{name}.feed_forward.in"] + p[f"{name}.feed_forward.in_bias"], approximate="tanh")
            output = inner @ p[f"{name}.feed_forward.out"] + p[f"{name}.feed_forward.out_bias"]
            h = self.norm(h + output, f"{name}.feed_forward_norm")
        return F.linear(h, p["embedding"], p["output_bias"]).log_softmax(-1)


def test_a_transformer_grammar_gives_the_same_log_probabilities_and_gradients() -> None:
    config = transformer_grammar.Config(**(vars(BASE) | {"segment_length": 64, "memory_length": 0}))
    arrays, trees = parameters_of(config), list(range(len(CORPUS.offsets) - 1))
    sequences = encode_sequences(CORPUS, VOCABULARY, config, cpu, trees)
    batch = assemble(sequences, np.array(trees), np.zeros(len(trees), int), config)
    expected, _ = transformer_grammar.token_logps(cpu, config, arrays, batch)
    _, gradients, _ = transformer_grammar.loss_and_grad(cpu, config, arrays, batch)
    p = {name: torch.from_numpy(x).requires_grad_() for name, x in arrays.items()}
    model = TransformerGrammar(config, p)
    types = torch.from_numpy(np.concatenate([sequence.types for sequence in sequences]))
    logps = model(torch.from_numpy(batch.ids), types, torch.from_numpy(batch.query_offsets))
    labels = torch.from_numpy(batch.labels.astype(np.int64))
    label_logps = logps.gather(1, labels.clamp(min=0)[:, None])[:, 0] * (labels >= 0)
    np.testing.assert_allclose(label_logps.detach().numpy(), expected, rtol=1e-10, atol=1e-12)
    (-label_logps.sum()).backward()
    for name, x in model.attention[1].named_parameters():
        np.testing.assert_allclose(x.grad.numpy(), gradients[f"layers.1.attention.{name}"], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(p["embedding"].grad.numpy(), gradients["embedding"], rtol=1e-8, atol=1e-10)


def test_weights_go_there_and_back(tmp_path: Path) -> None:
    """A model that was changed in PyTorch and saved has the same scores in Grove."""
    run = save_tiny(tmp_path / "run", "fasttrees")
    model = LanguageModel(run).eval()
    with torch.no_grad():
        for x in model.parameters():
            x.mul_(1.5)
    grove.save_weights(run, tmp_path / "tuned", model.state_dict())
    ids = torch.tensor([[0, 2, 4, 5]])
    logps = model(ids)[0, :-1].gather(1, ids[0, 1:, None])[:, 0]
    expected = [score for _, score in trained.open(tmp_path / "tuned").token_score("the dog sees")[0]]
    np.testing.assert_allclose(logps.detach().numpy(), expected, rtol=0, atol=1e-5)
    grove.save_weights(run, tmp_path / "part", model.cells.state_dict(), "cells.")
    torch.testing.assert_close(grove.load_weights(tmp_path / "part", "cells."), dict(model.cells.state_dict()))
    torch.testing.assert_close(grove.load_weights(tmp_path / "part")["embedding"], grove.load_weights(run)["embedding"])


def test_bfloat16_weights_are_saved(tmp_path: Path) -> None:
    run = save_tiny(tmp_path / "run", "lstm")
    weights = {name: x.bfloat16() for name, x in grove.load_weights(run, "cells.").items()}
    grove.save_weights(run, tmp_path / "tuned", weights, "cells.")
    for name, x in grove.load_weights(tmp_path / "tuned", "cells.").items():
        torch.testing.assert_close(x, weights[name].float(), rtol=0, atol=0)


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    run = save_tiny(tmp_path / "run", "lstm")
    weights = grove.load_weights(run, "cells.")
    with pytest.raises(ValueError, match="0.ih.weight: no parameter of"):
        grove.save_weights(run, tmp_path / "new", weights)
    with pytest.raises(ValueError, match=r"cells.0.ih.bias: shape \(3,\), but in"):
        grove.save_weights(run, tmp_path / "new", {"0.ih.bias": torch.zeros(3)}, "cells.")
    with pytest.raises(ValueError, match="cells.0.ih.bias: holds a NaN"):
        grove.save_weights(run, tmp_path / "new", {"0.ih.bias": weights["0.ih.bias"] / 0}, "cells.")
    with pytest.raises(ValueError, match="cells.0.ih.bias: torch.complex64, expected real numbers"):
        grove.save_weights(run, tmp_path / "new", {"0.ih.bias": weights["0.ih.bias"] * 1j}, "cells.")
    with pytest.raises(ValueError, match="prefix: 'cell.' begins no parameter of"):
        grove.load_weights(run, "cell.")
    with pytest.raises(accel.training.checkpoint.CheckpointError, match="does not exist"):
        grove.load_weights(tmp_path / "none")
    assert not (tmp_path / "new").exists()

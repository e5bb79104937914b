"""An ON-LSTM language model trained by PyTorch on Grove's layer, and by Grove itself: one minute.

    python -m examples.torch_on_lstm

Both begin with the same weights and read the same batches of generated English; the losses of all steps are compared.
Needs PyTorch (`pip install 'grove-lm[torch]'`).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import accel
from accel.data.batches.text import TextBatch, TextBatches, encode_lines
from accel.data.generated.grammar import ENGLISH
from accel.data.vocabularies.words import build_words
from accel.models.fasttrees import language_model
from accel.tasks.numbers import at_least
from accel.torch import OnLstm
from accel.training.loop import train
from accel.training.metrics import read_metrics
from accel.training.run import METRICS
from accel.training.settings import TrainingConfig
from examples.program import run_program
from refimpl.trees import words

RATE, COLUMNS, LENGTH = 1e-2, 16, 20


class LanguageModel(nn.Module):
    """An embedding, a stack of ON-LSTM layers, and the embedding again as the output layer."""

    def __init__(self, n_words: int, size: int, chunk_size: int) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.empty(n_words, size))
        self.output_bias = nn.Parameter(torch.empty(n_words))
        self.cells = OnLstm(size, (size, size), chunk_size)

    def forward(self, batch: TextBatch, state: list[Tensor] | None) -> tuple[Tensor, list[Tensor]]:
        """Return the loss a word of a ragged batch, and the state at its end."""
        ids, labels, offsets = (torch.from_numpy(x.astype(np.int64)) for x in (batch.ids, batch.labels, batch.offsets))
        h, state, _ = self.cells(self.embedding[ids], state=None if batch.fresh else state, offsets=offsets)
        return F.cross_entropy(F.linear(h, self.embedding, self.output_bias), labels), state


def losses_of_torch(model: LanguageModel, batches: TextBatches, steps: int) -> list[float]:
    """Return the loss a word before every update."""
    optimizer, state, losses = torch.optim.Adam(model.parameters(), RATE), None, []
    for _, batch in zip(range(steps), batches, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = RATE * batch.rate_scale  # a short batch moves the weights less
        loss, state = model(batch, state)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def losses_of_grove(
    config: language_model.Config, weights: dict[str, np.ndarray], batches: TextBatches, steps: int
) -> list[float]:
    """Return the loss a word before every update of `grove train`'s loop."""
    training = TrainingConfig(
        batch_size=COLUMNS, steps=steps, schedule="constant", maximum_rate=RATE, clip_norm=None, checkpoint_every=steps
    )
    with TemporaryDirectory() as folder:
        ops = accel.load("cpu")
        train(ops, language_model, config, training, batches, Path(folder), initial=weights, progress=False)
        return [line["loss"] for line in read_metrics(Path(folder) / METRICS)]


def main(arguments: Sequence[str] | None = None) -> dict[str, list[float]]:
    """Train both, print their losses, and return those of all steps."""
    parser = argparse.ArgumentParser(prog="python -m examples.torch_on_lstm", description="one loss, two trainings")
    parser.add_argument("--steps", type=at_least(1), default=200)
    parser.add_argument("--sentences", type=at_least(1), default=4000)
    parser.add_argument("--size", type=at_least(1), default=64, help="of the embedding and of each of the two layers")
    options = parser.parse_args(arguments)
    lines = [words(tree) for tree in ENGLISH.sample(options.sentences, 1)]
    vocabulary = build_words([*lines, ["<eos>"]])
    ids, ops = encode_lines(lines, vocabulary), accel.load("cpu")
    off = dict.fromkeys(("embedding_dropout", "input_dropout", "layer_dropout", "output_dropout", "weight_drop"), 0.0)
    config = language_model.Config(
        len(vocabulary), "on_lstm", options.size, options.size, 2, options.size // 8, alpha=0.0, beta=0.0, **off
    )
    weights = language_model.initialise(config, 0)
    model = LanguageModel(len(vocabulary), options.size, options.size // 8)
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in weights.items()})

    def batches() -> TextBatches:
        return TextBatches(ids, COLUMNS, ops=ops, length=LENGTH, epochs=None)

    losses = {
        "PyTorch": losses_of_torch(model, batches(), options.steps),
        "Grove": losses_of_grove(config, weights, batches(), options.steps),
    }
    print("| step | PyTorch | Grove |\n|---:|---:|---:|")
    for step in sorted({1, 10, *range(50, options.steps + 1, 50), options.steps}):
        print(f"| {step} | {losses['PyTorch'][step - 1]:.6f} | {losses['Grove'][step - 1]:.6f} |")
    most = max(abs(x - y) for x, y in zip(losses["PyTorch"], losses["Grove"], strict=True))
    print(f"largest difference of {options.steps} steps: {most:.1e} nats a word")
    return losses


if __name__ == "__main__":
    run_program(main)

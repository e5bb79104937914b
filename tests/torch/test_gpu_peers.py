"""The PyTorch peers of the GPU report: FlexAttention computes what the dense peer does; no tensor stays on the CPU."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed: make test-frameworks")

from accel import cpu  # noqa: E402
from benchmarks import gpu_steps  # noqa: E402
from benchmarks.gpu_report import peers, steps  # noqa: E402
from benchmarks.gpu_report.records import Missing, Setting  # noqa: E402
from benchmarks.peers_flex_torch import FlexTransformerGrammar, flex  # noqa: E402
from benchmarks.peers_torch import TransformerGrammar, dense  # noqa: E402

SETTING = Setting(Path(), False, True)
MAKE = {"transformer_grammar": peers.grammar, "treeformer": peers.chart}


@pytest.mark.filterwarnings("ignore:flex_attention called without")
def test_flex_attention_gives_the_loss_of_dense_attention() -> None:
    step = gpu_steps.grammar(0, cpu, True)
    config = replace(step.config, embedding_dropout=0.0, core_dropout=0.0, output_dropout=0.0)
    batch = dense(step.batches[0])
    with torch.no_grad():
        expected = TransformerGrammar(config, step.initial)(batch).item()
        actual = FlexTransformerGrammar(config, step.initial, compiled=False)(flex(batch)).item()
    assert actual == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    "step", [step for step in steps.chosen(SETTING) if step.family != "gpst"], ids=lambda s: s.family
)
def test_a_peer_works_on_one_device(step: gpu_steps.TableStep) -> None:
    """The device "meta" has no memory, and, as a GPU, refuses to mix its tensors with those of the CPU."""
    for label in peers.labels(step):
        if label != "FlexAttention":
            with torch.device("meta"):
                MAKE.get(step.family, peers.stack)(SETTING, step, label, "meta", nullcontext)()


def test_every_peer_is_timed() -> None:
    on_cpu = replace(SETTING, stand_in=True)
    for name, call in peers.rows(on_cpu):
        if "FlexAttention" in name:
            with pytest.raises(Missing, match="no backward pass on the CPU"):
                call()
        else:
            assert call()["step"] > 0

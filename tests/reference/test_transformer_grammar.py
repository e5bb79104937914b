"""The reference model obeys the laws of clauses TG; its vectors are tested in `test_vectors.py`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.verify.strategies import position_types, seeds
from refimpl.transformer_grammars.model import Config, parameter_count, parameter_shapes, token_logps, update_memory
from refimpl.transformer_grammars.segments import segments
from refimpl.transformer_grammars.stack_compose import attend_sets, attention_mask
from refimpl.trees import ActionType
from tests.fixtures.transformer_grammar_models import CHANGES

ONT, T, CNT1, CNT2 = ActionType
# "(S (NP a NP) b S)": position 3 is the word a, 4 and 5 close the NP, 7 and 8 the S.
SENTENCE = [ONT, ONT, ONT, T, CNT1, CNT2, T, CNT1, CNT2]


def make_config(**fields: Any) -> Config:
    sizes = {"vocabulary_size": 5, "d_model": 8, "d_ff": 6, "n_layers": 2, "n_heads": 2}
    return Config(**({"model": "tg", "segment_length": 4, "memory_length": 3} | sizes | fields))


def make_parameters(config: Config, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {name: draw.standard_normal(shape) / 2 for name, shape in parameter_shapes(config).items()}


def make_inputs(types: list[ActionType], seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random ids, the types as an array, and random labels, for all positions."""
    ids, labels = np.random.default_rng(seed + 1).integers(0, 5, (2, len(types)))
    return ids, np.array(types), labels


@given(st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), st.integers(1, 3), st.booleans())
def test_parameter_count(vocabulary: int, width: int, heads: int, hidden: int, n_layers: int, distinct: bool) -> None:
    """TG-2 L1, L2."""
    d = 2 * width * heads
    sizes = {"vocabulary_size": vocabulary, "d_model": d, "d_ff": hidden, "n_layers": n_layers, "n_heads": heads}
    layer = 5 * d**2 + 2 * d * hidden + hidden + 8 * d + distinct * (5 * d**2 + 3 * d)
    assert parameter_count(make_config(**sizes, distinct_attention=distinct)) == vocabulary * (d + 1) + n_layers * layer
    shared = {parameter_count(make_config(**sizes, **CHANGES[name])) for name in CHANGES if name != "tg_distinct"}
    assert len(shared) == 1


@pytest.mark.parametrize("variant", CHANGES)
@given(types=position_types(4), seed=seeds)
def test_normalised(variant: str, types: list[ActionType], seed: int) -> None:
    """TG-6 L1."""
    config = make_config(**CHANGES[variant])
    parameters, (ids, type_array, _) = make_parameters(config, seed), make_inputs(types, seed)
    every = [np.full(len(ids), label) for label in range(5)]
    total = sum(np.exp(token_logps(config, parameters, ids, type_array, labels)) for labels in every)
    np.testing.assert_allclose(total, 1, rtol=1e-12)


@pytest.mark.parametrize("variant", CHANGES)
@given(types=position_types(4), seed=seeds, data=st.data())
def test_later_actions_change_nothing(variant: str, types: list[ActionType], seed: int, data: st.DataObject) -> None:
    """TG-6 L2."""
    config = make_config(**CHANGES[variant])
    parameters, inputs = make_parameters(config, seed), make_inputs(types, seed)
    n = data.draw(st.integers(1, len(types)), label="length of the prefix")
    prefix = token_logps(config, parameters, *(x[:n] for x in inputs))
    np.testing.assert_allclose(prefix, token_logps(config, parameters, *inputs)[:n], rtol=1e-10)


@pytest.mark.parametrize("variant", CHANGES)
@given(types=position_types(6), seed=seeds, length=st.integers(1, 5))
def test_enough_memory_hides_the_segments(variant: str, types: list[ActionType], seed: int, length: int) -> None:
    """TG-5 L1: with enough memory, segments give the log-probabilities of the whole sequence.

    Unrestricted heads and layers use distances between columns, so they need a memory that shifts.
    """
    fields = {"memory": "shift"} | CHANGES[variant] if "free" in variant else CHANGES[variant]
    whole = make_config(**fields, segment_length=len(types), memory_length=0)
    segmented_config = make_config(**fields, segment_length=length, memory_length=len(types))
    parameters, inputs = make_parameters(whole, seed), make_inputs(types, seed)
    expected = token_logps(whole, parameters, *inputs)
    np.testing.assert_allclose(token_logps(segmented_config, parameters, *inputs), expected, rtol=1e-10)


@given(types=position_types(6), seed=seeds, length=st.integers(1, 5))
def test_memory_as_deep_as_the_stack_is_enough(types: list[ActionType], seed: int, length: int) -> None:
    """TG-5 L2."""
    deepest = max(len(positions) for positions, a in zip(attend_sets(types), types, strict=True) if a != CNT1)
    whole = make_config(segment_length=len(types), memory_length=0)
    segmented_config = make_config(segment_length=length, memory_length=deepest)
    parameters, inputs = make_parameters(whole, seed), make_inputs(types, seed)
    expected = token_logps(whole, parameters, *inputs)
    np.testing.assert_allclose(token_logps(segmented_config, parameters, *inputs), expected, rtol=1e-10)


@given(types=position_types(6), seed=seeds, n_layers=st.integers(1, 3), data=st.data())
def test_blocked_information_does_not_flow(
    types: list[ActionType], seed: int, n_layers: int, data: st.DataObject
) -> None:
    """TG-3 L1: after K layers a position depends only on positions within K steps along the mask."""
    config = make_config(n_layers=n_layers, segment_length=len(types), memory_length=0)
    parameters, (ids, type_array, labels) = make_parameters(config, seed), make_inputs(types, seed)
    j = data.draw(st.integers(0, len(types) - 1), label="changed position")
    other_ids = ids.copy()
    other_ids[j] = (ids[j] + 1) % 5
    before = token_logps(config, parameters, ids, type_array, labels)
    after = token_logps(config, parameters, other_ids, type_array, labels)
    is_reached = np.linalg.matrix_power(attention_mask(types).astype(int), n_layers)[:, j] > 0
    np.testing.assert_array_equal(before[~is_reached], after[~is_reached])


@pytest.mark.parametrize(("n_layers", "last"), [(1, 4), (2, 7), (3, 8)])
def test_a_closed_constituent_is_felt_through_its_composition(n_layers: int, last: int) -> None:
    """TG-3 L2: a layer passes a word on by one composition; at depth 3 it takes 2 layers (section 2.3)."""
    config = make_config(n_layers=n_layers, segment_length=9)
    parameters, (ids, type_array, labels) = make_parameters(config, 0), make_inputs(SENTENCE, 0)
    other_ids = ids.copy()
    other_ids[3] = (ids[3] + 1) % 5
    before = token_logps(config, parameters, ids, type_array, labels)
    after = token_logps(config, parameters, other_ids, type_array, labels)
    assert np.flatnonzero(before != after).tolist() == list(range(3, last + 1))


@given(types=position_types(6), seed=seeds, length=st.integers(1, 5), memory=st.integers(0, 6))
def test_transformer_xl_is_a_grammar_that_only_opens(
    types: list[ActionType], seed: int, length: int, memory: int
) -> None:
    """TG-1 L1, L2: TG is a Transformer-XL if it never closes, or if all heads or all layers are unrestricted."""
    sizes: dict[str, Any] = {"segment_length": length, "memory_length": memory}
    txl = make_config(**sizes, model="txl_cc")
    parameters, (ids, type_array, labels) = make_parameters(txl, seed), make_inputs(types, seed)
    expected = token_logps(txl, parameters, ids, type_array, labels)
    opens = np.full(len(ids), ONT)
    linear = make_config(**sizes, memory="shift", positions="linear")
    np.testing.assert_allclose(token_logps(linear, parameters, ids, opens, labels), expected, rtol=1e-10)
    for free in ({"unrestricted_heads": 2}, {"unrestricted_layers": 2}, {"unrestricted_layers": -2}):
        config = make_config(**sizes, memory="shift", **free)
        np.testing.assert_allclose(token_logps(config, parameters, ids, type_array, labels), expected, rtol=1e-10)


@given(types=position_types(6), seed=seeds)
def test_distinct_attention_with_equal_parameters_changes_nothing(types: list[ActionType], seed: int) -> None:
    """TG-4 L2; other parameters of the second set change the result, if there is a closing."""
    parameters, inputs = make_parameters(make_config(), seed), make_inputs(types, seed)
    expected = token_logps(make_config(), parameters, *inputs)
    second = {name.replace(".attention.", ".compose_attention."): x for name, x in parameters.items()}
    distinct = make_config(distinct_attention=True)
    np.testing.assert_array_equal(token_logps(distinct, parameters | second, *inputs), expected)
    other = {name: -x for name, x in second.items() if ".compose_attention.output" in name}
    is_changed = token_logps(distinct, parameters | second | other, *inputs) != expected
    assert is_changed.any() == (CNT1 in types)


@given(types=position_types(6), seed=seeds, length=st.integers(1, 5))
def test_without_memory_segments_are_strangers(types: list[ActionType], seed: int, length: int) -> None:
    """TG-5 L3."""
    config = make_config(model="txl_cc", segment_length=length, memory_length=0)
    parameters, inputs = make_parameters(config, seed), make_inputs(types, seed)
    parts = [slice(begin, begin + length) for begin in range(0, len(types), length)]
    alone = [token_logps(config, parameters, *(x[part] for x in inputs)) for part in parts]
    np.testing.assert_allclose(token_logps(config, parameters, *inputs), np.concatenate(alone), rtol=1e-10)


@pytest.mark.parametrize("variant", CHANGES)
def test_dtype_is_kept(variant: str) -> None:
    """TG-6 L3."""
    config = make_config(**CHANGES[variant])
    parameters, inputs = make_parameters(config, 0), make_inputs(SENTENCE, 0)
    wide = token_logps(config, parameters, *inputs)
    narrow = token_logps(config, {name: x.astype(np.float32) for name, x in parameters.items()}, *inputs)
    assert (wide.dtype, narrow.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(narrow, wide, rtol=1e-4, atol=1e-5)


def test_update_memory_refuses_other_sizes() -> None:
    segment = segments([ONT, ONT], 2, 1)[0]
    assert update_memory(segment, np.zeros((1, 1)), np.array([[7.0], [8.0]])).tolist() == [[8.0]]
    for rows, length in ((2, 2), (1, 3)):
        with pytest.raises(ValueError, match="memory, h"):
            update_memory(segment, np.zeros((rows, 1)), np.zeros((length, 1)))

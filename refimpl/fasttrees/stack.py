"""Layers of cells over a sentence, stacks of them, and the regularisation of training (sections 3 and 4.1)."""

import numpy as np

from refimpl.checks import Float, Parameters, check_known, check_least, check_shape, part
from refimpl.fasttrees.cells import CELLS
from refimpl.randomness import keep_mask

State = tuple[Float, Float, Float]  # h [H], c [H], and the inputs [reach, D] that the convolution still reads


def layer(cell_type: str, p: Parameters, x: Float, state: State, dilation: int = 1) -> tuple[Float, State, Float]:
    r"""Return the hidden states of one layer for a whole sentence, the state after it, and the distances.

    Spec: FT-7.  $h_t, c_t = \operatorname{RNN}(x_t, h_{t-1}, c_{t-1})$

    p : as `refimpl.fasttrees.cells.parameter_shapes` says; x : [T, D] float, T >= 1; dilation : int, step between taps.
    state : h [H], c [H], past [reach, D]; reach = (kernel - 1) * dilation for "conv_fasttrees", 0 for all others.
    -> outputs : [T, H] float; state after the sentence; distances : [T] float, [0] for "lstm".
    Raises ValueError if the sentence is empty, or the cell refuses a step.
    """
    if x.ndim != 2 or len(x) == 0:
        raise ValueError(f"x: shape {x.shape} is not [T, D] with T >= 1: an empty sequence")
    check_known("cell_type", cell_type, CELLS)
    h, c, past = state
    inputs = np.concatenate([past, x])
    outputs, distances = [], []
    for t in range(len(x)):
        window = inputs[t : t + len(past) + 1][::-dilation][::-1]  # every r-th input back from x_t, oldest first
        h, c, distance = CELLS[cell_type](p, window if cell_type == "conv_fasttrees" else x[t], h, c)
        outputs.append(h)
        distances += [] if distance is None else [distance]
    return np.array(outputs), (h, c, inputs[len(x) :]), np.array(distances, x.dtype)


def stack(
    cell_type: str, parameters: Parameters, x: Float, state: list[State] | None = None, *,
    chunk_size: int = 10, dilation: int = 1, keep: list[Float] | None = None,
) -> tuple[Float, list[State], Float]:  # fmt: skip
    r"""Return the hidden states of the last layer, the states of all layers, and the distances of all layers.

    Spec: FT-7.  $x^{(l+1)}_t = m^{(l)} \odot h^{(l)}_t$

    cell_type, x, dilation : as `layer`; parameters : those of layer k begin with `cells.{k}.`
    state : list of a state as in `layer` for each layer; None: zeros, H from the rows of the weights and `chunk_size`.
    keep : None, or for every layer but the last [H] multipliers of its hidden states (locked dropout).
    -> outputs : [T, H] float; state; distances : [layers, T] float, [0, T] for "lstm".
    Raises ValueError if parameters belong to no layer, rows do not fit `chunk_size`, `state` has another number of
    layers, `keep` another shape, or a layer refuses its input.
    """
    n_layers = sum(f"cells.{k}.ih.weight" in parameters for k in range(len(parameters)))
    layers = [part(parameters, f"cells.{k}") for k in range(n_layers)]
    if n_layers == 0 or sum(map(len, layers)) != len(parameters):
        raise ValueError(f"parameters: {sorted(parameters)} are not those of {n_layers} layers")
    states = [_start(cell_type, p, chunk_size, dilation) for p in layers] if state is None else list(state)
    keeps = [None] * n_layers if keep is None else [*keep, None]
    distances: list[Float] = [np.zeros(0)] * n_layers
    for k, (p, state_k, keep_k) in enumerate(zip(layers, states, keeps, strict=True)):
        x, states[k], distances[k] = layer(cell_type, p, x, state_k, dilation)
        if keep_k is not None:
            check_shape(f"keep: layer {k}", keep_k, x.shape[1])
            x = x * keep_k
    return x, states, np.array(distances).reshape(-1, len(x))


def weight_drop(weight: Float, rate: float, seed: int | None) -> Float:
    r"""Return the hidden-to-hidden weights for one sentence: masked in training, scaled otherwise.

    Spec: FT-9.  In training $m \odot U$ with $m \in \{0, 1\}$, one mask for all steps; otherwise $(1 - p)\, U$

    weight : [R, H]; rate : float, p; seed : int, or None (no training) -> [R, H]. Raises ValueError unless 0 <= p < 1.

    >>> weight_drop(np.full((1, 4), 8.0), 0.5, None).tolist(), weight_drop(np.full((1, 4), 8.0), 0.5, 3).tolist()
    ([[4.0, 4.0, 4.0, 4.0]], [[0.0, 8.0, 8.0, 0.0]])
    """
    mask = keep_mask(weight.size, rate, seed or 0).reshape(weight.shape) > 0
    return weight * (mask if seed is not None else weight.dtype.type(1 - rate))


def locked_dropout(x: Float, rate: float, seed: int) -> Float:
    r"""Return the rows with the same features dropped at every step.

    Spec: FT-9.  $m \odot x_t$ with $m \in \{0, 1 / (1 - p)\}$ for all t

    x : [T, D] float; rate : float, p; seed : int -> [T, D] float. Raises ValueError unless 0 <= p < 1.

    >>> locked_dropout(np.ones((2, 4)), 0.5, 3).tolist()
    [[0.0, 2.0, 2.0, 0.0], [0.0, 2.0, 2.0, 0.0]]
    """
    return x * keep_mask(x.shape[1], rate, seed).astype(x.dtype)


def activation_regularisation(h: Float, alpha: float) -> float:
    r"""Return the penalty for large hidden states of the last layer.

    Spec: FT-10.  $\alpha \operatorname{mean}(h^2)$

    h : [T, H] float, T >= 1; alpha : float -> float, not negative. Raises ValueError if there is no step.

    >>> activation_regularisation(np.array([[1.0, 3.0]]), 2.0)
    10.0
    """
    check_least(1, steps=len(h))
    return float(alpha * np.mean(h**2))


def temporal_activation_regularisation(h: Float, beta: float) -> float:
    r"""Return the penalty for hidden states of the last layer that change from step to step.

    Spec: FT-10.  $\beta \operatorname{mean}((h_{t+1} - h_t)^2)$

    h : [T, H] float, T >= 1; beta : float -> float, not negative; 0 for a single step.

    >>> temporal_activation_regularisation(np.array([[1.0, 3.0], [1.0, 5.0]]), 1.0)
    2.0
    """
    return float(beta * np.mean(np.diff(h, axis=0) ** 2)) if len(h) > 1 else 0.0


def _start(cell_type: str, parameters: Parameters, chunk_size: int, dilation: int) -> State:
    """Return a layer's state of zeros; H follows from the 4H + 2H / C rows of its matrix."""
    rows, input_size = parameters["ih.weight"].shape
    n_units, rest = divmod(rows, 4) if cell_type == "lstm" else divmod(rows * chunk_size, 4 * chunk_size + 2)
    if rest:
        raise ValueError(f"ih.weight: {rows} rows fit no hidden size of cell type {cell_type}, chunk_size {chunk_size}")
    zeros = np.zeros(n_units, parameters["ih.weight"].dtype)
    reach = (parameters["conv.weight"].shape[-1] - 1) * dilation if "conv.weight" in parameters else 0
    return zeros, zeros, np.zeros((reach, input_size), zeros.dtype)

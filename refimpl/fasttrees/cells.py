"""One step of an LSTM, ON-LSTM, FastTrees, Conv. FastTrees and Faster FastTrees layer (sections 3.1 and 3.2)."""

import numpy as np

from refimpl.checks import Float, Parameters, check_finite, check_known, check_least, check_shape
from refimpl.fasttrees.cumax import master_gates, structured_gates

Step = tuple[Float, Float, Float | None]  # h [H], c [H], and the distance (None for "lstm")


def parameter_shapes(
    cell_type: str, input_size: int, hidden_size: int, chunk_size: int = 10, kernel_size: int = 2,
    convolved: str = "gates",
) -> dict[str, tuple[int, ...]]:  # fmt: skip
    r"""Return the name and the shape of every parameter of one layer.

    Spec: FT-4.  Rows of `ih`: master input n, master forget n, out H, cell H, in H, forget H; n = H / C

    cell_type : in `CELLS`; input_size, hidden_size, chunk_size, kernel_size : int, D, H, C, taps of the convolution.
    convolved : "gates", the first 2n features of the input, or "inputs", all of them.
    Raises ValueError if `cell_type` or `convolved` is unknown, a size is not positive, C does not divide H (except for
    "lstm", which has no chunks), or the first 2n features are more than D.

    >>> parameter_shapes("fasttrees", 3, 4, chunk_size=2)
    {'ih.weight': (20, 3), 'ih.bias': (20,), 'hh.weight': (16, 4), 'hh.bias': (16,)}
    """
    check_known("cell_type", cell_type, CELLS)
    check_known("convolved", convolved, ("gates", "inputs"))
    check_least(1, input_size=input_size, hidden_size=hidden_size, chunk_size=chunk_size, kernel_size=kernel_size)
    if cell_type != "lstm" and hidden_size % chunk_size:
        raise ValueError(f"hidden_size: {hidden_size} is not divisible by chunk_size {chunk_size}")
    n_master = 0 if cell_type == "lstm" else 2 * (hidden_size // chunk_size)
    rows = n_master + 4 * hidden_size
    shapes: dict[str, tuple[int, ...]] = {"ih.weight": (rows, input_size), "ih.bias": (rows,)}
    if cell_type != "faster_fasttrees":
        recurrent = rows if cell_type == "on_lstm" else 4 * hidden_size
        shapes |= {"hh.weight": (recurrent, hidden_size), "hh.bias": (recurrent,)}
    if cell_type == "conv_fasttrees":
        width = n_master if convolved == "gates" else input_size
        check_least(width, input_size=input_size)
        shapes |= {"conv.weight": (width, width, kernel_size), "conv.bias": (width,)}
    return shapes


def sigmoid(x: Float) -> Float:
    r"""Return the gate of every logit.

    Spec: FT-3.  $\sigma(x) = 1 / (1 + e^{-x})$

    >>> sigmoid(np.array([-np.log(3.0), 0.0, 1000.0, -1000.0])).round(12)
    array([0.25, 0.5 , 1.  , 0.  ])
    """
    return np.asarray(np.exp(-np.logaddexp(0, -x)))  # overflows nowhere


def lstm_update(logits: Float, c: Float) -> Step:
    r"""Return the next hidden state and cell of an LSTM: the element-wise part of a step.

    Spec: FT-3.  $c_t = f_t \odot c_{t-1} + i_t \odot \hat c_t$, $h_t = o_t \odot \tanh(c_t)$

    logits : [4H] float, out, cell, in, forget; c : [H] float, before the step. Raises as `structured_update`.
    """
    check_shape("logits", logits, 4 * len(c))
    check_finite("logits", logits)
    o, hat_c, i, f = _gates(logits)
    c = f * c + i * hat_c
    return o * np.tanh(c), c, None


def structured_update(logits: Float, c: Float) -> Step:
    r"""Return the next hidden state, cell and distance of a cell with master gates.

    Spec: FT-3.  $c_t = \hat f_t \odot c_{t-1} + \hat i_t \odot \hat c_t$, $h_t = o_t \odot \tanh(c_t)$,
    $\delta_t = 1 - \operatorname{mean}(\tilde f_t)$

    logits : [2n + 4H] float, rows in the order of `parameter_shapes`; c : [H] float, before the step.
    Raises ValueError if a logit is not finite, or the shapes do not fit.
    """
    n_master = len(logits) - 4 * len(c)
    if n_master <= 0 or n_master % 2:
        raise ValueError(f"logits: {len(logits)} rows do not fit {len(c)} units")
    check_finite("logits", logits)
    input_logits, forget_logits = np.split(logits[:n_master], 2)
    o, hat_c, i, f = _gates(logits[n_master:])
    tilde_f, tilde_i = master_gates(forget_logits, input_logits)
    hat_f, hat_i = structured_gates(f, i, tilde_f, tilde_i)
    c = hat_f * c + hat_i * hat_c
    return o * np.tanh(c), c, 1 - tilde_f.mean()


def lstm(parameters: Parameters, x_t: Float, h: Float, c: Float) -> Step:
    r"""Return one step of an LSTM layer.

    Spec: FT-3.  logits $= W x_t + b + U h_{t-1} + b'$

    parameters : as `parameter_shapes` says; x_t : [D] float; h, c : [H] float, the state before the step.
    Raises ValueError, as all cells do, if parameters are not those of `parameter_shapes`, `h` or `c` has another shape,
    or a logit is not finite.
    """
    return lstm_update(_of_input("lstm", parameters, x_t, c) + _of_state(parameters, h), c)


def on_lstm(parameters: Parameters, x_t: Float, h: Float, c: Float) -> Step:
    r"""Return one step of an ON-LSTM layer, whose master gates read the hidden state too.

    Spec: FT-3.  logits $= W x_t + b + U h_{t-1} + b'$
    """
    return structured_update(_of_input("on_lstm", parameters, x_t, c) + _of_state(parameters, h), c)


def fasttrees(parameters: Parameters, x_t: Float, h: Float, c: Float) -> Step:
    r"""Return one step of a FastTrees layer, whose master gates read the input only.

    Spec: FT-3.  logits $= W x_t + b + [0; U h_{t-1} + b']$

    All logits are 0: the first chunk of two units keeps 1/2 * 1/4 + 1/4 of its 8, the last chunk all.

    >>> zeros = {name: np.zeros(shape) for name, shape in parameter_shapes("fasttrees", 3, 4, chunk_size=2).items()}
    >>> fasttrees(zeros, np.ones(3), np.zeros(4), np.full(4, 8.0))[1].tolist()
    [3.0, 3.0, 8.0, 8.0]
    """
    logits = _of_input("fasttrees", parameters, x_t, c)
    logits[-4 * len(c) :] += _of_state(parameters, h)
    return structured_update(logits, c)


def conv_fasttrees(parameters: Parameters, window: Float, h: Float, c: Float) -> Step:
    r"""Return one step of a Conv. FastTrees layer, whose master gates read the last inputs.

    Spec: FT-5.  logits $= [W_{0..2n-1} x'_t; W_{2n..} x_t] + b + [0; U h_{t-1} + b']$

    window : [k, D] float, inputs up to x_t, oldest first. The convolution computes the first `len(conv.bias)` features
    of x'_t; its other features are those of x_t. Raises ValueError if `window` does not fit the convolution.
    """
    check_shape("window", window, max(len(window), 1), None)
    logits = _of_input("conv_fasttrees", parameters, window[-1], c)
    n_master = len(logits) - 4 * len(c)
    weight, bias = parameters["conv.weight"], parameters["conv.bias"]
    local = np.concatenate([convolution(window[:, : len(bias)], weight, bias), window[-1, len(bias) :]])
    logits[:n_master] = parameters["ih.weight"][:n_master] @ local + parameters["ih.bias"][:n_master]
    logits[n_master:] += _of_state(parameters, h)
    return structured_update(logits, c)


def faster_fasttrees(parameters: Parameters, x_t: Float, h: Float, c: Float) -> Step:
    r"""Return one step of a Faster FastTrees layer, which reads no hidden state.

    Spec: FT-6.  logits $= W x_t + b$
    """
    return structured_update(_of_input("faster_fasttrees", parameters, x_t, c), c)


CELLS = {cell.__name__: cell for cell in (lstm, on_lstm, fasttrees, conv_fasttrees, faster_fasttrees)}


def convolution(window: Float, weight: Float, bias: Float) -> Float:
    r"""Return the causal convolution at the last input of a window.

    Spec: FT-5.  $x'_t = \operatorname{ReLU}(\sum_j K_j x_{t-(k-1-j)r} + b'')$

    window : [k, D] float, oldest first; weight : [E, D, k] float; bias : [E] float -> [E] float, not negative.
    Raises ValueError if shapes do not fit.

    >>> convolution(np.array([[1.0], [2.0]]), np.array([[[10.0, 1.0]], [[0.0, -1.0]]]), np.zeros(2)).tolist()
    [12.0, 0.0]
    """
    check_shape("conv.weight", weight, None, window.shape[1], len(window))
    check_shape("conv.bias", bias, len(weight))
    return np.asarray(np.maximum(sum(weight[:, :, j] @ window[j] for j in range(len(window))) + bias, 0))


def _gates(logits: Float) -> tuple[Float, Float, Float, Float]:
    z_o, z_c, z_i, z_f = np.split(logits, 4)
    return sigmoid(z_o), np.tanh(z_c), sigmoid(z_i), sigmoid(z_f)


def _of_input(cell_type: str, parameters: Parameters, x_t: Float, c: Float) -> Float:
    """Return W x_t + b; raise ValueError unless the shapes are those of `parameter_shapes` for len(c) units."""
    check_shape("c", c, None)
    shapes = {name: p.shape for name, p in parameters.items()}
    rows, input_size = shapes.get("ih.weight", (0, 0))
    chunk_size = len(c) // max((rows - 4 * len(c)) // 2, 1)
    width, *_, taps = shapes.get("conv.weight", (input_size, 2))
    convolved = "inputs" if width == input_size else "gates"
    expected = parameter_shapes(cell_type, input_size, len(c), chunk_size, taps, convolved)
    if shapes != expected:
        raise ValueError(f"parameters: {shapes} are not {expected} for {len(c)} units of cell type {cell_type}")
    return parameters["ih.weight"] @ x_t + parameters["ih.bias"]


def _of_state(parameters: Parameters, h: Float) -> Float:
    check_shape("h", h, parameters["hh.weight"].shape[1])
    return parameters["hh.weight"] @ h + parameters["hh.bias"]

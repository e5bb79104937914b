"""LSTM, ON-LSTM and the FastTrees cells (sections 3.1 and 3.2), their trees, and the gate for a Transformer (3.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refimpl.checks import Float, Parameters
from refimpl.fasttrees.cumax import master_gates, structured_gates
from refimpl.randomness import keep_mask
from refimpl.trees import Tree

State = tuple[Float, Float, Float]  # h [H], c [H], and the inputs [reach, D] that the convolution will see again

KINDS = ("lstm", "on_lstm", "fasttrees", "conv_fasttrees", "faster_fasttrees")


def parameter_shapes(
    kind: str, input_size: int, hidden_size: int, chunk_size: int = 10, kernel_size: int = 2
) -> dict[str, tuple[int, ...]]:
    r"""Return the name and the shape of every parameter of one layer.

    Spec: FT-4.  Rows of `ih`: master input n, master forget n, out H, cell H, in H, forget H

    Parameters
    ----------
    kind : one of `KINDS`
    input_size, hidden_size : int
        D and H.
    chunk_size : int
        C, the units that share a master gate value; n = H / C. Not read by kind "lstm", which has no master gates.
    kernel_size : int
        Steps that the convolution of "conv_fasttrees" sees.

    Raises
    ------
    ValueError
        If the kind is unknown, a size is not positive, or C does not divide H.

    Examples
    --------
    >>> parameter_shapes("fasttrees", 3, 4, chunk_size=2)
    {'ih.weight': (20, 3), 'ih.bias': (20,), 'hh.weight': (16, 4), 'hh.bias': (16,)}
    """
    if kind not in KINDS:
        raise ValueError(f"kind: {kind!r} is not one of {', '.join(KINDS)}")
    if min(input_size, hidden_size, chunk_size, kernel_size) < 1:
        raise ValueError(f"sizes: {(input_size, hidden_size, chunk_size, kernel_size)} are not all positive")
    if kind != "lstm" and hidden_size % chunk_size:
        raise ValueError(f"hidden_size: {hidden_size} is not divisible by chunk_size {chunk_size}")
    n_master = 0 if kind == "lstm" else 2 * (hidden_size // chunk_size)
    rows = n_master + 4 * hidden_size
    shapes: dict[str, tuple[int, ...]] = {"ih.weight": (rows, input_size), "ih.bias": (rows,)}
    if kind != "faster_fasttrees":
        recurrent = rows if kind in ("lstm", "on_lstm") else 4 * hidden_size
        shapes |= {"hh.weight": (recurrent, hidden_size), "hh.bias": (recurrent,)}
    if kind == "conv_fasttrees":
        shapes |= {"conv.weight": (input_size, input_size, kernel_size), "conv.bias": (input_size,)}
    return shapes


def sigmoid(x: Float) -> Float:
    r"""Return the gate of every logit.

    Spec: FT-3.  $\sigma(x) = 1 / (1 + e^{-x})$

    Examples
    --------
    >>> sigmoid(np.array([-np.log(3.0), 0.0, 1000.0, -1000.0])).round(12)
    array([0.25, 0.5 , 1.  , 0.  ])
    """
    y: Float = np.exp(-np.logaddexp(0, -x))  # overflows nowhere
    return y


def update(kind: str, logits: Float, c: Float) -> tuple[Float, Float, Float | None]:
    r"""Return the next hidden state, cell and distance: the element-wise part of a step.

    Spec: FT-3.  $c_t = \hat f_t \odot c_{t-1} + \hat i_t \odot \hat c_t$, $h_t = o_t \odot \tanh(c_t)$

    Parameters
    ----------
    kind : one of `KINDS`
    logits : [2n + 4H] float
        Rows in the order of `parameter_shapes`; finite. n = 0 for kind "lstm".
    c : [H] float
        The cell before the step.

    Returns
    -------
    h : [H] float, dtype of `logits`
        In [-1, 1].
    c : [H] float
    distance : float, or None for kind "lstm"
        $1 - \operatorname{mean}(\tilde f_t)$, in [0, 1]: how much of the tree closes before this word.

    Raises
    ------
    ValueError
        If a logit is NaN or infinite, or the shapes do not fit.

    Examples
    --------
    Two units, two chunks, all logits 0: the cell is tanh 0 written, the first unit's 8 times 1/2 * 1/4 + 1/4 kept.

    >>> update("on_lstm", np.zeros(12), np.array([8.0, 8.0]))[1:]
    (array([3., 8.]), np.float64(0.25))
    """
    n_units = len(c)
    n_master = len(logits) - 4 * n_units
    if (n_master != 0) if kind == "lstm" else (n_master <= 0 or n_master % 2):
        raise ValueError(f"logits: {len(logits)} rows do not fit {n_units} units of kind {kind}")
    if not np.isfinite(logits).all():
        raise ValueError(f"logits: NaN or infinity in row {int(np.argmin(np.isfinite(logits)))}")
    out, cell, i, f = np.split(logits[n_master:], 4)
    o, i, f, candidate = sigmoid(out), sigmoid(i), sigmoid(f), np.tanh(cell)
    distance = None
    if kind != "lstm":
        input_logits, forget_logits = np.split(logits[:n_master], 2)
        tilde_f, tilde_i = master_gates(forget_logits, input_logits)
        f, i = structured_gates(f, i, tilde_f, tilde_i)
        distance = 1 - tilde_f.mean()
    c = f * c + i * candidate
    return o * np.tanh(c), c, distance


def cell(kind: str, parameters: Parameters, x_t: Float, h: Float, c: Float) -> tuple[Float, Float, Float | None]:
    r"""Return the next hidden state, cell and distance of one layer.

    Spec: FT-3, FT-5, FT-6.  logits $= W x_t + b + U h_{t-1} + b'$, where the kind says which rows have a $U$

    Parameters
    ----------
    kind : one of `KINDS`
    parameters : dict of str to float array
        As `parameter_shapes` says.
    x_t : [D] float; for kind "conv_fasttrees" [kernel, D]
        The input of this step; the convolution's window, oldest first, this step last.
    h, c : [H] float
        State before the step. Kind "faster_fasttrees" does not read `h`.

    Returns
    -------
    h, c, distance
        As `update`.

    Raises
    ------
    ValueError
        If a parameter is missing, unknown or of another shape, the state does not fit, or a logit is not finite.

    Examples
    --------
    >>> zeros = {name: np.zeros(shape) for name, shape in parameter_shapes("fasttrees", 3, 4, chunk_size=2).items()}
    >>> cell("fasttrees", zeros, np.ones(3), np.zeros(4), np.full(4, 8.0))[1].tolist()
    [3.0, 3.0, 8.0, 8.0]
    """
    _check(kind, parameters, c)
    weight, bias = parameters["ih.weight"], parameters["ih.bias"]
    logits = weight @ (x_t[-1] if kind == "conv_fasttrees" else x_t) + bias
    if kind == "conv_fasttrees":
        n_master = len(logits) - 4 * len(c)
        local = convolution(x_t, parameters["conv.weight"], parameters["conv.bias"])
        logits[:n_master] = weight[:n_master] @ local + bias[:n_master]
    if kind != "faster_fasttrees":
        recurrent = parameters["hh.weight"] @ h + parameters["hh.bias"]
        logits[len(logits) - len(recurrent) :] += recurrent
    return update(kind, logits, c)


def layer(kind: str, parameters: Parameters, x: Float, state: State, dilation: int = 1) -> tuple[Float, State, Float]:
    r"""Return the hidden states of one layer for a whole sentence, the state behind it, and the distances.

    Spec: FT-7.  $h_t, c_t = \operatorname{RNN}(x_t, h_{t-1}, c_{t-1})$

    Parameters
    ----------
    kind : one of `KINDS`
    parameters : dict of str to float array
        As `parameter_shapes` says.
    x : [T, D] float
        T >= 1.
    state : h [H], c [H], past [reach, D]
        All zero before a sentence. `past` are the last inputs, which a convolution still sees: reach is
        (kernel - 1) * dilation for kind "conv_fasttrees", and 0 for all others.
    dilation : int
        Steps between the taps of the convolution.

    Returns
    -------
    outputs : [T, H] float, dtype of `x`
        Row t does not depend on rows of `x` after t.
    state
        To go on from: the next part of the sentence then gives what the whole sentence would.
    distances : [T] float; [0] for kind "lstm"

    Raises
    ------
    ValueError
        If the sentence is empty, or `cell` refuses a step.

    Examples
    --------
    >>> zeros = {name: np.zeros(shape) for name, shape in parameter_shapes("on_lstm", 3, 4, chunk_size=2).items()}
    >>> start = np.zeros(4), np.zeros(4), np.zeros((0, 3))
    >>> outputs, state, distances = layer("on_lstm", zeros, np.ones((2, 3)), start)
    >>> outputs.shape, distances.tolist()
    ((2, 4), [0.25, 0.25])
    """
    if x.ndim != 2 or len(x) == 0:
        raise ValueError(f"x: shape {x.shape} is not [T, D] with T >= 1: an empty sequence")
    h, c, past = state
    seen = np.concatenate([past, x])
    outputs, distances = [], []
    for t in range(len(x)):
        window = seen[t : t + len(past) + 1 : dilation]
        h, c, distance = cell(kind, parameters, window if kind == "conv_fasttrees" else x[t], h, c)
        outputs.append(h)
        distances += [] if distance is None else [distance]
    return np.array(outputs), (h, c, seen[len(x) :]), np.array(distances, x.dtype)


def stack(
    kind: str, parameters: Parameters, x: Float, state: Sequence[State] | None = None, *,
    chunk_size: int = 10, dilation: int = 1, keep: Sequence[Float] | None = None,
) -> tuple[Float, list[State], Float]:  # fmt: skip
    r"""Return the hidden states of the last of several layers, the state of all of them, and their distances.

    Spec: FT-7.  $x^{(k+1)}_t = m^{(k)} \odot h^{(k)}_t$

    Parameters
    ----------
    kind, x, dilation
        As `layer`.
    parameters : dict of str to float array
        Those of layer k begin with `cells.{k}.`
    state : list of states as `layer`, or None
        None: all zero.
    chunk_size : int
        C, read where `state` is None: the parameters alone do not say what H is.
    keep : None or list of arrays, [H] of every layer but the last
        Multipliers of the hidden states between layers: the masks of locked dropout.

    Returns
    -------
    outputs : [T, H] float, dtype of `x`
    state : list of states
    distances : [layers, T] float; [0, T] for kind "lstm"

    Raises
    ------
    ValueError
        If the rows do not fit `chunk_size`, or `layer` refuses a layer.

    Examples
    --------
    >>> shapes = parameter_shapes("faster_fasttrees", 2, 2, chunk_size=1)
    >>> zeros = {f"cells.{k}.{name}": np.zeros(shape) for k in range(2) for name, shape in shapes.items()}
    >>> outputs, state, distances = stack("faster_fasttrees", zeros, np.ones((3, 2)), chunk_size=1)
    >>> outputs.shape, len(state), distances.shape
    ((3, 2), 2, (2, 3))
    """
    own: list[Parameters] = []
    while len(own) == 0 or any(name.startswith(f"cells.{len(own)}.") for name in parameters):
        prefix = f"cells.{len(own)}."
        own.append({name.removeprefix(prefix): p for name, p in parameters.items() if name.startswith(prefix)})
    if sum(map(len, own)) != len(parameters) or not all("ih.weight" in p for p in own):
        raise ValueError(f"parameters: {sorted(parameters)} are not those of {len(own)} layers")
    states = [_start(kind, p, chunk_size, dilation) for p in own] if state is None else list(state)
    distances = []
    for k, (parameters_k, state_k) in enumerate(zip(own, states, strict=True)):
        x, states[k], distance = layer(kind, parameters_k, x, state_k, dilation)
        distances.append(distance)
        if keep is not None and k + 1 < len(own):
            x = x * keep[k]
    return x, states, np.array(distances).reshape(-1, len(x))


def released_convolution(x: Float, weight: Float, bias: Float) -> Float:
    r"""Return the inputs of a batch whose first features were convolved over the batch, as the authors' code does.

    Spec: FT-5.  $x'_{tb} = \operatorname{ReLU}(W_0 x_{t,b-1} + W_1 x_{t,b+1} + b)$ for the first 2n features.
    Kind "fasttrees" on these inputs is the released Conv. FastTrees.

    Parameters
    ----------
    x : [T, B, D] float
        B sentences beside each other; 0 where a sentence has no step t.
    weight : [2n, 2n, 2], bias : [2n] float

    Returns
    -------
    [T, B, D] float, dtype of `x`
        Features 2n and later are those of `x`.

    Raises
    ------
    ValueError
        If the shapes do not fit.

    Examples
    --------
    >>> x = np.array([[[1.0, 5.0], [2.0, 6.0], [4.0, 7.0]]])
    >>> released_convolution(x, np.array([[[1.0, 10.0]]]), np.zeros(1))[0].tolist()
    [[20.0, 5.0], [41.0, 6.0], [2.0, 7.0]]
    """
    width = len(bias)
    if x.ndim != 3 or weight.shape != (width, width, 2) or width > x.shape[2]:
        raise ValueError(f"conv.weight: shape {weight.shape} does not fit {width} biases and inputs of shape {x.shape}")
    edge = np.zeros_like(x[:, :1, :width])
    beside = np.concatenate([edge, x[:, :, :width], edge], axis=1)  # [T, B + 2, 2n]
    local = np.maximum(beside[:, :-2] @ weight[:, :, 0].T + beside[:, 2:] @ weight[:, :, 1].T + bias, 0)
    return np.concatenate([local, x[:, :, width:]], axis=2)


def weight_drop(weight: Float, rate: float, seed: int | None) -> Float:
    r"""Return the hidden-to-hidden weights as one sentence sees them.

    Spec: FT-9.  In training $m \odot U$ with $m \in \{0, 1\}$, one mask for all steps; otherwise $(1 - p)\, U$

    Parameters
    ----------
    weight : [R, H] float
    rate : float
        p in [0, 1): the share of weights that are dropped.
    seed : int, or None outside of training
        Of `refimpl.randomness.keep_mask`.

    Returns
    -------
    [R, H] float, dtype of `weight`
        Survivors keep their size.

    Raises
    ------
    ValueError
        If `rate` is outside [0, 1).

    Examples
    --------
    >>> weight_drop(np.full((1, 4), 8.0), 0.5, None).tolist(), weight_drop(np.full((1, 4), 8.0), 0.5, 3).tolist()
    ([[4.0, 4.0, 4.0, 4.0]], [[0.0, 8.0, 8.0, 0.0]])
    """
    mask = keep_mask(weight.size, rate, seed or 0).reshape(weight.shape) > 0
    return weight * (mask if seed is not None else weight.dtype.type(1 - rate))


def locked_dropout(x: Float, rate: float, seed: int) -> Float:
    r"""Return the rows with the same features dropped at every step.

    Spec: FT-9.  $m \odot x_t$ with $m \in \{0, 1 / (1 - p)\}$ for all t

    Parameters
    ----------
    x : [T, D] float
    rate : float
        p in [0, 1).
    seed : int
        Of `refimpl.randomness.keep_mask`.

    Returns
    -------
    [T, D] float, dtype of `x`

    Raises
    ------
    ValueError
        If `rate` is outside [0, 1).

    Examples
    --------
    >>> locked_dropout(np.ones((2, 4)), 0.5, 3).tolist()
    [[0.0, 2.0, 2.0, 0.0], [0.0, 2.0, 2.0, 0.0]]
    """
    return x * keep_mask(x.shape[1], rate, seed).astype(x.dtype)


def activation_regularisation(h: Float, alpha: float) -> float:
    r"""Return what the loss adds for large hidden states of the last layer.

    Spec: FT-10.  $\alpha \operatorname{mean}(h^2)$

    Parameters
    ----------
    h : [T, H] float
        T >= 1.
    alpha : float
        2 in the paper's language model.

    Examples
    --------
    >>> activation_regularisation(np.array([[1.0, 3.0]]), 2.0)
    10.0
    """
    return float(alpha * np.mean(h**2))


def temporal_activation_regularisation(h: Float, beta: float) -> float:
    r"""Return what the loss adds for hidden states of the last layer that change from step to step.

    Spec: FT-10.  $\beta \operatorname{mean}((h_{t+1} - h_t)^2)$

    Parameters
    ----------
    h : [T, H] float
        T >= 1; a single step does not change: 0.
    beta : float
        1 in the paper's language model.

    Examples
    --------
    >>> temporal_activation_regularisation(np.array([[1.0, 3.0], [1.0, 5.0]]), 1.0)
    2.0
    """
    return float(beta * np.mean(np.diff(h, axis=0) ** 2)) if len(h) > 1 else 0.0


def tree_from_distances(words: Sequence[str], distances: Sequence[float] | Float, split: str = "biased") -> Tree:
    r"""Return the binary tree that splits where the distance is greatest.

    Spec: FT-8.  $i = \operatorname{argmax}_t \text{distance}_t$, the first of equals:
    $[\text{left}_{0..i-1}\ [w_i\ \text{right}_{i+1..}]]$

    Parameters
    ----------
    words : list of n str
        n >= 1.
    distances : [n] float
        That of word t says how much ends before t; finite.
    split : "biased" or "unbiased"
        Biased, as the authors': the word of greatest distance becomes the left sister of all that follows it, which
        favours right-branching. Unbiased: [left right], where right begins with the word of greatest distance
        among all but the first.

    Returns
    -------
    Tree
        All labels "X"; every node has two children (one word: one child).

    Raises
    ------
    ValueError
        If there is no word, the lengths differ, a distance is NaN or infinite, or `split` is unknown.

    Examples
    --------
    >>> str(tree_from_distances(["a", "b", "c", "d"], [9, 1, 3, 2]))
    '(X a (X b (X c d)))'
    >>> str(tree_from_distances(["a", "b", "c", "d"], [9, 1, 3, 2], split="unbiased"))
    '(X (X a b) (X c d))'
    """
    d = np.asarray(distances)
    if len(words) == 0 or d.shape != (len(words),):
        raise ValueError(f"distances: shape {d.shape} for {len(words)} words, at least one")
    if not np.isfinite(d).all():
        raise ValueError(f"distances: NaN or infinity at word {int(np.argmin(np.isfinite(d)))}")
    if split not in ("biased", "unbiased"):
        raise ValueError(f"split: {split!r} is not biased or unbiased")

    def node(first: int, end: int) -> Tree | str:
        if end - first == 1:
            return words[first]
        if split == "unbiased":
            i = first + 1 + int(np.argmax(d[first + 1 : end]))
            return Tree("X", (node(first, i), node(i, end)))
        i = first + int(np.argmax(d[first:end]))
        right = words[i] if i + 1 == end else Tree("X", (words[i], node(i + 1, end)))
        return right if i == first else Tree("X", (node(first, i), right))

    root = node(0, len(words))
    return root if isinstance(root, Tree) else Tree("X", (root,))


def convolution(window: Float, weight: Float, bias: Float) -> Float:
    r"""Return the causal convolution at the last input of a window.

    Spec: FT-5.  $x'_t = \operatorname{ReLU}(\sum_j K_j x_{t-(k-1-j)r} + b'')$

    window : [k, D] float, oldest first; weight : [E, D, k] float; bias : [E] float -> [E] float, not negative.
    Raises ValueError if the window does not fit the weight.

    >>> convolution(np.array([[1.0], [2.0]]), np.array([[[10.0, 1.0]], [[0.0, -1.0]]]), np.zeros(2)).tolist()
    [12.0, 0.0]
    """
    if window.shape != (weight.shape[2], weight.shape[1]):
        raise ValueError(f"conv.weight: shape {weight.shape} does not fit a window of shape {window.shape}")
    y: Float = np.maximum(sum(weight[:, :, j] @ window[j] for j in range(len(window))) + bias, 0)
    return y


def _start(kind: str, parameters: Parameters, chunk_size: int, dilation: int) -> State:
    """Return a layer's state of zeros; its 4H + 2H / C rows say what H is."""
    rows, input_size = parameters["ih.weight"].shape
    n_units, rest = divmod(rows, 4) if kind == "lstm" else divmod(rows * chunk_size, 4 * chunk_size + 2)
    if rest:
        raise ValueError(f"ih.weight: {rows} rows fit no hidden size of kind {kind} and chunk_size {chunk_size}")
    zeros = np.zeros(n_units, parameters["ih.weight"].dtype)
    reach = (parameters["conv.weight"].shape[2] - 1) * dilation if kind == "conv_fasttrees" else 0
    return zeros, zeros, np.zeros((reach, input_size), zeros.dtype)


def _check(kind: str, parameters: Parameters, c: Float) -> None:
    """Refuse parameters that are not what `parameter_shapes` gives for the units of c."""
    found = {name: p.shape for name, p in parameters.items()}
    rows, input_size = found.get("ih.weight", (0, 0))
    chunk_size = len(c) // max((rows - 4 * len(c)) // 2, 1)
    expected = parameter_shapes(kind, input_size, len(c), chunk_size, found.get("conv.weight", (0, 0, 2))[-1])
    if found != expected:
        raise ValueError(f"parameters: {found} are not {expected} for {len(c)} units of kind {kind}")

"""The text of gpu_model.md; benchmarks/gpu_model.py fills in its tables and numbers."""

TEXT = """# The time of training steps on a GPU, predicted and measured

The predictions follow from counts and from the figures of a machine. They were made before any GPU had run Grove, and
are left as they were. Since then [gpu_report](gpu_report) has run on an H200: its [report](results/gpu/h200/report.md)
measured the machine and every step, and stands beside the predictions here. A
[second one](results/gpu/h200_second/report.md), of newer code, timed plain kernels and each kernel of a step. This page
is written by a program, and a test compares it:

```sh
python -m benchmarks.gpu_model
```

## The machine

One H200. The predictions use what was assumed.

| figure | assumed | source | measured | how |
|---|---|---|---|---|
{figures}

## The model

- [gpu_counts.py](gpu_counts.py) runs a step of real size on the strict stand-in for CuPy, and notes for every kernel
  the bytes of its arrays, each once, and for every product its operations. If several launches of one of our kernels
  get the same array, as the steps of a recurrence do, each moves an equal share. A sort counts as eight kernels. The
  arithmetic of other kernels is not counted: attention over a dozen keys is bound by bytes.
- On the device a kernel takes the longest of three times: of its start, its bytes, its operations. Meanwhile the host
  calls the next ones. A step takes the longer of the two, plus the synchronisations. ([gpu_time.py](gpu_time.py))
- The columns *design* are of a step that starts as many kernels as its budget allows, copies once and waits once. A
  budget is the number of kernels that we allow a step ([budgets.toml](../tests/kernels/budgets.toml)). The budgets are
  set for five steps, and those of others are in proportion. Its bytes are those of now: what fused kernels no longer
  move is not subtracted, nor is what the L2 cache (assumed 50 MB; the H200 reports 63) holds. A graph is one call of
  the host; with graphs, the recurrences of the stacks run in persistent kernels, 60 of a step of 350, which read their
  weights once. Budgets are older than the fused kernels: where "now" has fewer kernels than its budget (Transformer
  Grammar), the design is the slower of the two; where it has more (GPST), the goal is not met.
- `grove train --kernels fast --graphs` captures the steps of one shape: "now, a graph" has the kernels of "now", of
  GPST the fast ones, without their barriers of all blocks, and three calls of the host. The other columns with graphs
  are part of the design.
- Gradients are added up over GPUs while the backward pass runs, two thirds of a step; the last bucket waits for it.

## What a step asks of a GPU

"Before" was counted at commit {before}, "now" at {now}; a batch lies on the device already,
and nobody reads the loss. Waits are synchronisations and copies from the host. "Fast" are the kernels of
`--kernels fast`; those of stacks cannot be counted at this size on the stand-in, whose blocks have no room for their
weights: a small stack of three layers has 59 (tests/kernels/budgets.toml).

| step | kernels, before | now | fast | budget | waits, before | now | GB moved | GFLOP of products |
|---|---|---|---|---|---|---|---|---|
{counts}

## Predicted milliseconds

In float32, but for the column that says bf16. As predicted before any measurement.

| step | before | now | now, a graph | design, no graph | graph | graph, bf16 | bound now by | after the design by |
|---|---|---|---|---|---|---|---|---|
{times}

## Predicted and measured milliseconds

In float32: plain kernels started one by one, and fast kernels in a graph. "Times" is the measured time divided by the
predicted one. "Anew" is what the model predicts with the machine's measured figures. The fast kernels of the stacks are
persistent ones, while "now, a graph" has a kernel for each step of a recurrence. Measured times are medians of seven; a
graph replays one batch.

| step | plain: predicted | measured | times | anew | a graph: predicted | measured | times | anew |
|---|---|---|---|---|---|---|---|---|
{compared}

## What differed

{differed}

## A Transformer Grammar on BLLIP-LG

The paper's model ({parameters:.0f} million parameters: d 1,024, 16 layers, 32,768 pieces), 176 sentences a step,
100,000 steps. The corpus has 40 million words, at 24.15 words and about {positions} positions a sentence:
{steps_an_epoch:,.0f} steps are an epoch. The counts follow, on lines, from those of steps as wide with one and two
layers and few positions. The rows of a step are divided among the GPUs, and float32 gradients are added up while the
backward pass runs. The paper trained on 16 cores of a TPU v3 at 4.06 steps a second: {tpu:.1f} hours.

| GPUs | how | step of a GPU, ms | all-reduce, ms | together, ms | hours an epoch | hours, 100,000 steps | bound by |
|---|---|---|---|---|---|---|---|
{large}

No GPU has made this training, and these are predictions with the assumed figures. Measured products have
{scale_float32} of the assumed rate in float32 and {scale_bf16} in bf16, and a small step takes longer than predicted.

On 64 GPUs a step of so few sentences waits for the network: gradients in bf16 would halve that, larger batches hide it.
Within one machine links between GPUs are faster than the network that is counted here.
"""

DIFFERED = (
    "**Without a graph a step waits for the host.** A call of our operation `bias_gelu`, with its checks and its new "
    "array, takes {call} us of the host, where {call_before} were assumed for a call; a fill by CuPy takes "
    "{call_of_cupy}. A Transformer Grammar's step of {kernels} kernels takes {tg_plain} ms in place of {tg_before}: "
    "{us_a_kernel} us of the host a kernel. In {n_by_host} of {n_steps} plain steps the host has made its calls after "
    "95 % of the time or later. (Where a step waits for the GPU in between, that is counted, too.) Such times vary: "
    "of 8 long trees the least was {long_least} ms, the greatest {long_greatest}.",
    "**With a graph, kernels take longer than their starts, bytes and products.** The same step takes {tg_graph} ms; "
    "{tg_graph_before} were predicted, and {tg_graph_after} with the measured figures. The second report timed the "
    "plain kernels of newer code one by one: small products, attention over listed keys and the backward pass of "
    "layer normalisation take longest.",
    "**The machine is a little slower than assumed.** Its rate of copies is {scale_bytes} of the assumed one; that of "
    "products is {scale_float32} in float32, {scale_tf32} in TF32, {scale_bf16} in bf16. This explains no more than "
    "{most_by_rates} times the predicted work of the GPU.",
    "**GPST's composition is far from the machine's rates.** For 128 words it takes {gpst64_graph} ms with a graph at "
    "d 64 ({gpst64_graph_before} predicted), and {gpst256_graph} at d 256 ({gpst256_graph_before} predicted). The "
    "latter has {share_of_products} % of the rate of products and {share_of_copies} % of that of copies. It takes "
    "{gpst256_tf32_graph} ms in TF32 and {gpst256_bf16_graph} in bf16, so that most of its time is not that of "
    "products whose factors are rounded.",
    "**Recurrences in one kernel are slow.** The FastTrees stack 400-1150-1150-400 takes {stack_fast} ms, and "
    "{stack_graph} with a graph; {stack_graph_before} were predicted. {stack_graph} ms are {us_a_turn} us for each of "
    "the {n_turns} steps of its recurrences (70 words, three layers, forward and backward). A barrier of all blocks "
    "was assumed to take {turn_before} us. Plain kernels take {stack_plain} ms.",
    "**For stacks 128-400 with 256 sequences fast kernels are slower than plain ones.** FastTrees takes {small_fast} "
    "ms, {small_graph} with a graph, and {small_plain} with plain kernels; ON-LSTM takes {small_on_lstm_fast}, "
    "{small_on_lstm_graph} and {small_on_lstm_plain}. Conv. FastTrees takes {small_conv_fast}, {small_conv_graph} and "
    "{small_conv_plain}: it is faster with a graph only.",
    "**bf16 without a graph is slower than float32 in {n_narrow_slower} of {n_steps} steps**, by more than 5 %. A "
    "Transformer Grammar takes {tg_bf16} ms in bf16, {tg_fast} in float32. In bf16 a fast step rounds factors by more "
    "kernels; we believe that their calls take the time. With a graph it takes {tg_bf16_graph} ms in bf16, {tg_graph} "
    "in float32.",
    "**PyTorch is slower, cuDNN's LSTM faster.** In float32 our best form is {peer_least} to {peer_greatest} times as "
    "fast as the same step in PyTorch. Those steps use no graphs, and wait for the host, too: PyTorch's padded step of "
    "a Transformer Grammar takes {padded} ms, {padded_by_plain} times our plain one. cuDNN's LSTM does not have the "
    "gates of ON-LSTM and FastTrees. It takes {lstm_large} ms in place of our {stack_graph} (FastTrees, "
    "400-1150-1150-400) and {lstm_small} in place of {small_plain} (128-400).",
)
"""What the report shows beside the predictions, an item each; benchmarks/gpu_measured.py has the numbers."""

"""GPST without one of its parts, and GPT-2, on the same generated English for the same number of steps.

    python -m examples.gpst.ablations

Without surrogates the generative model reads one vector for every composed phrase. Without the gradient stop the loss
of the generative model also trains the weights of the splits. GPT-2 has as many layers as GPST's generative model, or
as many parameters as all of GPST. The last column counts the splits whose parts differ in length, and gives the share
of them with more words on the left: it is above 50 % for trees that lean to the left. The file of figures also has
the steps, and whether the last validation was the best one (1) or not (0).
"""

from __future__ import annotations

from collections.abc import Sequence

import accel
from accel.parsing.spans import find_spans
from accel.trained.opening import open_model
from accel.training.checkpoint import read_state
from accel.training.run import NEWEST
from examples.commands import finish, table
from examples.gpst.runs import apart, best_perplexity, longer_left, read_options, test_sentences, train
from examples.program import run_program
from examples.queue_state import is_last_best

MODELS = {
    "GPST": ("gpst", ()),
    "without surrogates": ("no_surrogate", ("--set", "surrogate=false")),
    "without gradient stop": ("no_gradient_stop", ("--set", "gradient_stop=false")),
    "GPT-2, as many layers": ("gpt2", ("--model", "gpt2")),
    "GPT-2, as many parameters": ("gpt2_deep", ("--model", "gpt2", "--set", "token_layers=5")),
}
TREES = {"inside": "F1, inside", "left-to-right": "left-to-right", "left-to-right, no sync": "no sync"}
LEAN = "longer on the left"
COLUMNS = ("in contexts", "apart", "apart, summed", *TREES.values(), LEAN)
STEPS, IMPROVING = "steps", "still improving"


def main(arguments: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Train every model; return its perplexities and the F1 of its trees."""
    options, ops, figures = read_options("ablations", "GPST without its parts", arguments), accel.load("cpu"), {}
    for title, (name, extra) in MODELS.items():
        scores = train(options, name, *extra)
        sentences, model = test_sentences(options), open_model(ops, options.out / name)
        perplexities = apart(ops, model, sentences, options.beam)
        trees = {column: scores["sentence_f1"][row] for row, column in TREES.items() if "sentence_f1" in scores}
        if trees:
            trees[LEAN] = longer_left(find_spans(ops, model, sentences, mode="inside"))
        state = read_state(options.out / name / NEWEST)
        training = {STEPS: state["step"], IMPROVING: float(is_last_best(state["results"], state["best"]))}
        figures[title] = {"in contexts": scores["perplexity"], **perplexities, **trees, **training}
    rows = figures | {"the grammar": {"in contexts": best_perplexity(sentences)}}
    print(f"\nPerplexity of words (of GPST bounds), and F1 in %:\n\n{table(rows, COLUMNS, 1.0)}")
    finish(__file__, figures, options.out)
    return figures


if __name__ == "__main__":
    run_program(main)

"""The runs that `examples.queue` makes, the most important first.

Hours are core hours, estimated from the time of a step on a busy two-core machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from examples.gpst_runs import ABLATION_SEEDS, ablations, gpst, one_tree
from examples.language_model_runs import LANGUAGE_MODELS, language_model
from examples.queue_commands import SEEDS, Run, of_text, of_trees, settings, train, trees

TREEBANKS = Run(
    "treebanks", "treebanks", 0.01,
    ("examples.transformer_grammars.free_treebanks --craft {data}/craft --tg-example {data}/tg_example "
     "--gum {data}/gum --out {run}",),
    tuple(f"{{runs}}/treebanks/{kind}" for kind in ("craft", "tg_example", "union")),
)  # fmt: skip

# 1. Parsers for the proposals: the variant with the best F1 on the validation trees is used.
PARSER_SETTINGS = {
    "dropout-0.2": ("", {"dropout": 0.2}, 1.0),
    "dropout-0.3": ("", {"dropout": 0.3}, 1.0),
    "pieces": ("--vocabulary sentencepiece", {"dropout": 0.3}, 2.0),
    "lstm": ("--model lstm_parser", {}, 1.5),
    "lstm-0.5": ("--model lstm_parser", {"dropout": 0.5}, 1.5),  # from the fifth epoch on lstm overfits CRAFT
    "lstm-tags": ("--model lstm_parser --learn-tags", {}, 1.6),
}
OF_KIND = {"tg_example": tuple(PARSER_SETTINGS)[:4], "craft": tuple(PARSER_SETTINGS)}
PIECES = {"tg_example": 4000, "craft": 8000}  # SentencePiece finds at most 5,887 in the text of tg_example
EPOCHS = {"tg_example": 40, "craft": 25}
LSTM_EPOCHS = 12
PARSER_HOURS = {"tg_example": 0.25, "craft": 0.4}


def parser(kind: str, name: str) -> Run:
    extra, values, times = PARSER_SETTINGS[name]
    recipe = settings(maximum_rate=0.0015, warmup_steps=200, checkpoint_every=1000, **values)
    size = PIECES[kind] if name == "pieces" else 8000
    epochs = LSTM_EPOCHS if name.startswith("lstm") else EPOCHS[kind]
    words = f"--task span_parser --epochs {epochs} --batch-size 250 --vocabulary-size {size} {extra} {recipe}"
    test_option = f"--test {of_trees(kind)[1]}"  # on the validation trees: the F1 that the parser is chosen by
    hours = PARSER_HOURS[kind] * times
    return Run(f"{kind}/parser-{name}", "parsers", hours, train(f"{words} {trees(kind)} {test_option}"), of_trees(kind),
               ("treebanks",))  # fmt: skip


def parsers(kind: str) -> tuple[Run, ...]:
    return tuple(parser(kind, name) for name in OF_KIND[kind])


# 2. Transformer Grammars, Table 1: the sizes of examples.measure, more steps; on tg_example also twice the width.
GRAMMARS = ("tg", "txl_cc", "txl_terminals")


@dataclass(frozen=True)
class Grammars:
    """Models of one treebank and size: how they are trained and measured."""

    treebank: str
    table: str
    steps: tuple[int, int, int]  # of the models in the order of `GRAMMARS`
    dropout: float
    sentences: int  # drawn from the test trees (tg_example has 293, a search of one of CRAFT takes 1.5 seconds), or
    # the first ones of every document
    hours: float  # of examples.measure
    width: int = 128
    times: float = 1.0  # a step takes so many times the seconds in `SECONDS`
    options: str = ""  # of the training and of examples.measure
    measures: str = ""  # options of examples.measure


TABLE_1, SYNTAXGYM = "Transformer Grammars, Table 1", "Transformer Grammars, SyntaxGym"
DOCUMENTS = "Transformer Grammars, documents"
OF_SILVER = " --beam 0 --draws 0 --suites {data}/syntaxgym/test_suites_json.tar.xz"
KINDS = {
    "tg_example": Grammars("tg_example", TABLE_1, (6000, 6000, 4000), 0.2, 500, 0.5),
    "tg_example_256": Grammars("tg_example", TABLE_1, (6000, 6000, 4000), 0.2, 500, 0.7, width=256, times=2.2,
                               measures=" --name tg_example_256"),
    "craft": Grammars("craft", TABLE_1, (16_000, 16_000, 10_000), 0.1, 300, 0.6),
    "silver": Grammars("silver", SYNTAXGYM, (12_000, 12_000, 8000), 0.1, 500, 1.1, measures=OF_SILVER),
    "craft_documents": Grammars("craft_documents", DOCUMENTS, (10_000, 10_000, 6000), 0.1, 40, 0.5, times=2.7,
                                options=" --documents", measures=" --number 100"),  # its rows are full segments
}  # fmt: skip
SILVER = Run(
    "silver/trees", SYNTAXGYM, 0.2,
    ("examples.transformer_grammars.silver_trees --data {data}/standard_ebooks --out {runs}/treebanks/silver "
     "--parser {runs}/tg_example/parser-lstm",),
    of_text("standard_ebooks", "{}"), ("tg_example/parser-lstm",),
)  # fmt: skip
"""Trees of two million words of prose, for SyntaxGym: gold treebanks have fewer. The parser was trained on a novel."""
PARSER_OF = {"silver": "tg_example", "craft_documents": "craft"}
"""The treebank that the parser of another one was trained on; craft_documents has the articles of craft."""


def grammar(kind: str, model: str, seed: int) -> Run:
    of_kind, steps = KINDS[kind], KINDS[kind].steps[GRAMMARS.index(model)]
    treebank, width, rate = of_kind.treebank, of_kind.width, of_kind.dropout
    recipe = settings(
        d_model=width, d_ff=4 * width, n_layers=6, n_heads=width // 32, segment_length=128, memory_length=128,
        embedding_dropout=rate, core_dropout=rate, output_dropout=rate, maximum_rate=0.0015, final_rate=0.000015,
        warmup_steps=300, validate_every=500, checkpoint_every=500,
    )  # fmt: skip
    words = f"--model {model} --vocabulary sentencepiece --vocabulary-size 4000 --batch-size 16 --steps {steps}"
    return Run(
        f"{kind}/{model}-{seed}", of_kind.table, steps * of_kind.times * SECONDS[model] / 3600,
        train(f"{words}{of_kind.options} --seed {seed} {trees(treebank)} {recipe}"), of_trees(treebank),
        (SILVER.name if treebank == "silver" else "treebanks",), seed,
    )  # fmt: skip


def measured(kind: str, seed: int) -> Run:
    of_kind = KINDS[kind]
    of_parser = PARSER_OF.get(of_kind.treebank, of_kind.treebank)
    parsers = tuple(f"{of_parser}/parser-{name}" for name in OF_KIND[of_parser])
    models = tuple(f"{kind}/{model}-{seed}" for model in GRAMMARS)
    command = (
        f"examples.measure --data {{runs}}/treebanks/{of_kind.treebank} --out {{runs}}/{kind} --seed {seed} "
        f"--sentences {of_kind.sentences} --parser {{best}}{of_kind.options}{of_kind.measures}"
    )
    previous = tuple(f"{kind}/measured-{earlier}" for earlier in range(seed))  # the first one writes the proposals
    return Run(f"{kind}/measured-{seed}", of_kind.table, of_kind.hours, (command,), of_trees(of_kind.treebank),
               (*parsers, *models), seed, (f"{kind}/*-{seed}/result.json",), after=previous)  # fmt: skip


# The paper's variants of a Transformer Grammar, on the validation trees: small models, all in one run.
def variants(kind: str) -> Run:
    sizes = settings(d_model=64, d_ff=256, n_layers=4, maximum_rate=0.003)
    command = (
        f"examples.measure --data {{runs}}/treebanks/{kind} --out {{run}} --variants distinct,shift,linear "
        f"--split valid --models tg --seeds {len(SEEDS)} --steps 3000 --sentences 200 --number 100 --beam 0 --draws 0 "
        f"--parser {{best}} {sizes}"
    )
    parsers = tuple(f"{kind}/parser-{name}" for name in OF_KIND[kind])
    return Run(f"{kind}/variants", "Transformer Grammars, Table 2", 1.0, (command,), of_trees(kind), parsers,
               figures=("{run}/*/result-valid.json",))  # fmt: skip


# 3. FastTrees, Table 2: the sizes and epochs of the released code.
def logic(kind: str, seed: int) -> Run:
    words = f"--task logic --model {kind} --seed {seed} --epochs {LOGIC_EPOCHS} --data {{data}}/logical_inference"
    answers = "examples.fasttrees.answers --checkpoint {run} --data {data}/logical_inference --out {run}/answers.json"
    hours = LOGIC_STEPS * SECONDS[f"logic {kind}"] / 3600
    return Run(f"logic/{kind}-{seed}", "FastTrees, Table 2", hours, (*train(words), answers),
               ("{data}/logical_inference",), seed=seed, figures=("{run}/evaluation.json", "{run}/answers.json"),
               task="fasttrees/logic_published", model=kind)  # fmt: skip


# Do master gates that see more words close the gap to ON-LSTM? The beginning of a run shows it: same seed, same rate.
def window(n_words: int) -> Run:
    words = f"--task logic --model conv_fasttrees --epochs {WINDOW_EPOCHS} --data {{data}}/logical_inference"
    hours = WINDOW_EPOCHS / LOGIC_EPOCHS * LOGIC_STEPS * SECONDS["logic conv_fasttrees"] / 3600
    return Run(f"logic_window/{n_words}", "FastTrees, Table 2", hours,
               train(f"{words} {settings(kernel_size=n_words)}"), ("{data}/logical_inference",))  # fmt: skip


# 4. COGS: the sizes of examples/treeformer, 30,000 steps. The best checkpoint on dev and the last one are tested.
def cogs(kind: str, seed: int) -> Run:
    words = f"--task cogs --model {kind} --seed {seed} --steps 30000 --set d_ff=256 --data {{data}}/cogs"
    last = "accel.cli evaluate {run}/checkpoint-00030000.safetensors"
    hours = 30_000 * SECONDS[f"cogs {kind}"] / 3600
    return Run(f"cogs/{kind}-{seed}", "Treeformer, Table 4 (COGS)", hours, (*train(words), last), ("{data}/cogs",),
               seed=seed, task="treeformer/cogs_30000_steps", model=kind)  # fmt: skip


# 5. Analyses of Transformer Grammars: regressions of Table 1's models of CRAFT, and small models of tg_example.
PARSED = Run(
    "tg_example/parsed", "Transformer Grammars, analyses", 0.05,
    (f"accel.cli propose --checkpoint {{best}} --trees {of_trees('tg_example')[2]} --out {{run}}.trees",),
    of_trees("tg_example"), tuple(f"tg_example/parser-{name}" for name in OF_KIND["tg_example"]),
)  # fmt: skip


def analysis(program: str, hours: float, kind: str, words: str, *needs: str) -> Run:
    return Run(f"analyses/{program}", "Transformer Grammars, analyses", hours,
               (f"examples.transformer_grammars.{program} {words} --out {{run}}",), of_trees(kind),
               ("treebanks", *needs), figures=(f"{{run}}/{program}.json",))  # fmt: skip


def regressions(kind: str) -> Run:
    trained = {model: [f"{kind}/{model}-{seed}" for seed in SEEDS] for model in ("tg", "txl_cc")}
    tg, txl_cc = (" ".join(f"{{runs}}/{name}" for name in names) for names in trained.values())
    train, _, test = of_trees(kind)
    words = f"--tg {tg} --txl-cc {txl_cc} --train {train} --trees {test} --test 0 --frequencies 0.001 0.0001"
    return analysis("regressions", 0.05, kind, words, *trained["tg"], *trained["txl_cc"])


def of_small_models(program: str, hours: float, words: str) -> Run:
    trees = f"--data {{runs}}/treebanks/tg_example --proposals {{runs}}/{PARSED.name}.trees"
    return analysis(program, hours, "tg_example", f"{trees} --steps 1000 --dropout 0.1 {words}", PARSED.name)


ANALYSES = (
    regressions("craft"),
    of_small_models("evolution", 0.7, "--seeds 3 --test 40"),
    of_small_models("hybrids", 0.9, "--seeds 3 --test 100"),
    of_small_models("ensembles", 1.2, "--seeds 10 --test 100 --subsets 10"),
)


CELLS = ("fasttrees", "conv_fasttrees", "on_lstm", "faster_fasttrees", "lstm")
LOGIC_EPOCHS = 38  # of 50: in the last ten the accuracy on validation hardly moves, but for two runs (RESULTS.md)
WINDOW_EPOCHS = 12
LOGIC_STEPS = LOGIC_EPOCHS * 953
SECONDS = {
    "tg": 0.19, "txl_cc": 0.26, "txl_terminals": 0.15,
    "logic fasttrees": 0.3, "logic conv_fasttrees": 0.25, "logic on_lstm": 0.34, "logic faster_fasttrees": 0.07,
    "logic lstm": 0.24, "cogs transformer": 0.28, "cogs treeformer": 0.32,
}  # fmt: skip
"""Seconds of a training step."""


def table_1(kind: str, seeds: Sequence[int] = SEEDS) -> tuple[Run, ...]:
    """Return the trainings of Table 1 on a treebank and their measures, seed by seed."""
    return tuple(run for seed in seeds for run in (*(grammar(kind, model, seed) for model in GRAMMARS),
                                                   measured(kind, seed)))  # fmt: skip


RUNS = (
    TREEBANKS,
    *parsers("tg_example"),
    *table_1("tg_example"),
    variants("tg_example"),
    *(gpst(model, seed, "gpst_small") for seed in SEEDS for model in ("gpst", "gpt2")),
    *(logic(kind, 0) for kind in CELLS),
    window(5),
    *parsers("craft"),
    SILVER,
    *table_1("silver", seeds=(0,)),
    *table_1("tg_example_256", seeds=(0,)),
    *table_1("craft"),
    PARSED,
    *ANALYSES,
    *(logic(kind, seed) for seed in SEEDS[1:] for kind in ("fasttrees", "on_lstm")),
    *(language_model(kind, 0) for kind in LANGUAGE_MODELS["medium"].hours),
    *(language_model(kind, seed, "small") for seed in SEEDS for kind in LANGUAGE_MODELS["small"].hours),
    *table_1("silver", seeds=SEEDS[1:]),
    *(cogs(kind, seed) for seed in SEEDS for kind in ("transformer", "treeformer")),
    *(
        run
        for seed in SEEDS
        for run in (*(gpst(model, seed, "gpst_longer") for model in ("gpst", "gpt2")), one_tree("gpst_longer", seed))
    ),
    *(ablations(seed) for seed in ABLATION_SEEDS),
    *table_1("craft_documents"),
    *table_1("tg_example_256", seeds=SEEDS[1:]),
    *(gpst(model) for model in ("gpst", "gpt2")),
    *(logic("conv_fasttrees", seed) for seed in SEEDS[1:]),
)

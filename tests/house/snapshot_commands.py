"""The commands of the snapshot: a name, and a command line with the runs that it reads.

`RUN NAME` stands for `--checkpoint @/runs/NAME`.
"""

from __future__ import annotations

SEARCH = "--beam 8 --max-open 4 --max-opens 2"
PROPOSED = "--parser @/runs/parser --proposals-per-sentence 4"
PROPOSALS = "--proposals @/proposals.trees"
PAIRS = "minimal_pairs --data @/pairs.tsv --format marvin_linzen"
TREE = "(S (NP (NP the dog) (PP near (NP a cat))) (VP sees (NP the bird)) .)"

LINES: dict[str, str] = {
    "backends": "backends",
    "evaluate": "evaluate @/runs/gpst",
    "evaluate_lm": "evaluate @/runs/lm_fasttrees --data @/valid.txt",
    "evaluate_parser": "evaluate @/runs/parser --data @/valid.trees",
    "evaluate_logic": "evaluate @/runs/logic",
    "evaluate_cogs": "evaluate @/runs/cogs/best.safetensors",
    "import": "import @/released.weights --model fasttrees --text @/train.txt --out @/runs/imported",
    "imported": "perplexity RUN/imported --text @/test.txt",
    "score": "score RUN/tg @/valid.trees",
    "score_tokens": "score RUN/tg @/valid.trees --tokens --batch-size 4",
    "score_64": "score RUN/tg_64 @/train.trees --batch-size 64",
    "score_mixture": "score RUN/tg RUN/tg_heads @/valid.trees --ensemble mixture",
    "score_product": "score RUN/tg RUN/tg_layers @/valid.trees --ensemble product --tokens",
    "score_txl_cc": "score RUN/txl_cc @/valid.trees --tokens",
    "score_words": "score RUN/words @/valid.trees --tokens",
    "score_pieces": "score RUN/tg_tagged @/tagged.trees --tokens",
    "score_documents": "score RUN/tg_wide @/documents.trees",
    "score_text": "score RUN/lm_conv_fasttrees @/test.txt --text --tokens --batch-size 4",
    "score_text_lstm": "score RUN/lm_lstm @/valid.txt --text",
    "perplexity": f"perplexity RUN/tg {PROPOSALS} --rows @/out/rows",
    "perplexity_gold": "perplexity RUN/txl_cc --proposals @/numbered.trees --numbered --gold @/valid.trees "
    "--rows @/out/gaps",
    "perplexity_trees": "perplexity RUN/words --trees @/valid.trees",
    "perplexity_text": "perplexity RUN/lm_on_lstm --text @/valid.txt",
    "rerank": f"rerank RUN/tg {PROPOSALS} --gold @/valid.trees --out @/out/reranked.trees --rows @/out/reranked",
    "rerank_ensemble": f"rerank RUN/tg RUN/txl_cc {PROPOSALS} --gold @/valid.trees",
    "propose": "propose RUN/parser @/lines.txt --number 5 --out @/out/proposed.trees",
    "propose_trees": "propose RUN/parser --trees @/valid.trees --number 300 --out @/out/proposed_trees.trees",
    "propose_long": "propose RUN/parser_long --trees @/long.trees --number 2 --out @/out/proposed_long.trees",
    "parse_lm": "parse RUN/lm_fasttrees @/test.txt",
    "parse_layers": "parse RUN/lm_on_lstm @/valid.txt --layer 1 --split unbiased --batch-size 9",
    "parse_faster": "parse RUN/lm_faster_fasttrees --gold @/tagged.trees --convention wsj10 --out @/out/faster.trees",
    "parse_logic": "parse RUN/sentiment --gold @/short.trees --convention plain --number 2 "
    "--picture @/out/distances.svg",
    "parse_chart": "parse RUN/translation_treeformer @/out/letters --max-height none",
    "parse_released": "parse RUN/translation_treeformer_released @/out/letters --max-height 10",
    "parse_gpst": "parse RUN/gpst @/test.txt",
    "parse_gpst_parser": "parse RUN/gpst @/valid.txt --mode parser --batch-size 64",
    "parse_gpst_search": "parse RUN/gpst @/lines.txt --mode left-to-right --beam 5",
    "parse_gpst_no_sync": "parse RUN/gpst_words @/lines.txt --mode left-to-right --beam 5 --no-sync",
    "parse_gpst_gold": "parse RUN/gpst --gold @/short.trees --convention plain --preset gpst --picture @/out/gpst.svg",
    "parse_tg": f"parse RUN/tg @/lines.txt {SEARCH}",
    "parse_txl_cc": f"parse RUN/txl_cc @/lines.txt {SEARCH} --word-beam 4 --fast-track 2",
    "parse_tg_gold": f"parse RUN/tg --gold @/short.trees {SEARCH} --out @/out/parsed.trees",
    "induction": "induction RUN/lm_fasttrees RUN/lm_on_lstm RUN/gpst RUN/gpst_words --gold @/short.trees "
    "--convention plain --beam 4 --layers 1 2 --out @/out/induction.json",
    "translate": "translate RUN/translation_fasttrees @/out/letters --beam 4 --length-penalty 1.2 --extra-length 60",
    "translate_average": "translate RUN/translation_treeformer @/out/letters --average 2 --beam 2",
    "translate_greedy": "translate RUN/translation_transformer @/pairs/test.lo --beam 1",
    "translate_digits": "translate RUN/arithmetic @/out/problems",
    "generate_gpst": "generate RUN/gpst --words 12 --top-k 3 --seed 4",
    "generate_context": "generate RUN/gpst_words --words 9 --top-k 3 --seed 1 --context @/prefix.txt --prefix the",
    "generate_gpt2": "generate RUN/gpt2 --words 40 --top-k 4",
    "generate_tg": "generate RUN/tg --words 8 --top-k 3 --seed 2",
    "generate_txl_cc": "generate RUN/txl_cc --words 8 --top-k 3 --seed 2",
    "surprisal_gpst": "surprisal RUN/gpst @/lines.txt --beam 5 --batch-size 2",
    "surprisal_context": "surprisal RUN/gpst_words @/lines.txt --beam 4 --context-lines 2",
    "surprisal_gpt2": "surprisal RUN/gpt2 @/contexts.txt --context-lines 30",
    "surprisal_tg": f"surprisal RUN/tg @/lines.txt {SEARCH}",
    "surprisal_txl_cc": f"surprisal RUN/txl_cc @/lines.txt {SEARCH}",
    "surprisal_words": "surprisal RUN/words @/lines.txt",
    "surprisal_lm": "surprisal RUN/lm_lstm @/lines.txt",
    "surprisal_proposed": f"surprisal RUN/tg @/lines.txt {PROPOSED}",
    "syntaxgym_lm": "syntaxgym RUN/lm_faster_fasttrees @/suite.json --out @/out/suite_lm.json",
    "syntaxgym_gpst": "syntaxgym RUN/gpst @/suite.json --beam 4 --out @/out/suite_gpst.json",
    "syntaxgym_tg": f"syntaxgym RUN/tg @/suite.json {SEARCH} --out @/out/suite_tg.json",
    "syntaxgym_proposed": f"syntaxgym RUN/txl_cc @/suite.json {PROPOSED} --out @/out/suite_proposed.json",
    "syntaxgym_results": "syntaxgym --results @/results.csv",
    "minimal_pairs_lm": f"{PAIRS} RUN/lm_conv_fasttrees --out @/out/pairs_lm.json",
    "minimal_pairs_gpst": f"{PAIRS} RUN/gpst --beam 4 --measure critical --out @/out/pairs_gpst.json",
    "minimal_pairs_tg": f"{PAIRS} RUN/tg {SEARCH} --measure critical --out @/out/pairs_tg.json",
    "minimal_pairs_proposed": f"{PAIRS} RUN/tg {PROPOSED} --out @/out/pairs_proposed.json",
    "minimal_pairs_words": f"{PAIRS} RUN/words --per 2 --seed 1 --out @/out/pairs_words.json",
    "embed": "embed RUN/gpst @/test.txt --out @/out/vectors",
    "draw_distances": "draw distances the small dog sees a cat RUN/lm_fasttrees --out @/out/drawn_distances.svg",
    "draw_chart": "draw chart a b c d RUN/translation_treeformer --target A --out @/out/drawn_chart.svg",
    "draw_parse": "draw parse a b c d e RUN/translation_treeformer --max-height none --out @/out/drawn_parse.svg",
    "draw_loss": "draw loss @/runs/tg @/runs/txl_cc @/runs/words --out @/out/drawn_loss.svg",
    "draw_of_file": "draw mask @/valid.trees --number 3 --keep-tags --out @/out/drawn_third.svg",
    "draw_attention": "draw attention @/valid.trees RUN/tg --number 2 --layer 1 --head 2 "
    "--out @/out/drawn_attention.svg",
    "draw_png": "draw loss @/runs/tg --out @/out/drawn_loss.png",
    "resume": "train --out @/runs/lm_sgd --resume --steps 26",
    "verify": "verify cpu --op cumax",
}

COMMANDS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    *(
        (f"draw_{kind}", ("draw", kind, TREE, "--keep-tags", "--out", f"@/out/drawn_{kind}.svg"), ())
        for kind in ("mask", "tree")
    ),
    *(
        (
            name,
            tuple(
                " ".join(
                    f"--checkpoint @/runs/{word[4:]}" if word[:4] == "RUN/" else word for word in line.split()
                ).split()
            ),
            ("released",) if name.startswith("import") else (),
        )
        for name, line in LINES.items()
    ),
)

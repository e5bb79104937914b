"""The files that the snapshot reads: small, drawn from a seed, and made without any module of the project."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

NOUNS = ("dog", "dogs", "cat", "cats", "bird", "birds", "teacher", "teachers")
VERBS = ("sees", "see", "likes", "like", "follows", "follow")
LONG = 270  # words: more than 256 keys
RELATIONS = ("<", ">", "=", "^", "|", "#", "v")
HEADER = "template\tcase\tgood\tbad\tthird\n"


def noun_phrase(draw: Random, depth: int, tagged: bool) -> str:
    """Return a noun phrase in brackets; sometimes a phrase or a clause follows the noun."""
    words = [("DT", draw.choice(("the", "a"))), ("JJ", draw.choice(("", "", "small", "old")))]
    words.append(("NN", draw.choice(NOUNS)))
    inside = " ".join(f"({tag} {word})" if tagged else word for tag, word in words if word)
    kind = draw.random() if depth < 3 else 1.0
    if kind < 0.3:
        near = "(IN near)" if tagged else "near"
        return f"(NP (NP {inside}) (PP {near} {noun_phrase(draw, depth + 1, tagged)}))"
    if kind < 0.45:
        that = "(WDT that)" if tagged else "that"
        return f"(NP (NP {inside}) (SBAR {that} {verb_phrase(draw, depth + 1, tagged)}))"
    return f"(NP {inside})"


def verb_phrase(draw: Random, depth: int, tagged: bool) -> str:
    verb = draw.choice(VERBS)
    return f"(VP {f'(VB {verb})' if tagged else verb} {noun_phrase(draw, depth, tagged)})"


def sentences(count: int, seed: int, tagged: bool = False) -> list[str]:
    """Return `count` random trees in brackets."""
    draw, stop = Random(seed), "(. .)" if tagged else "."
    return [
        f"(S {noun_phrase(draw, 0, tagged)} {verb_phrase(draw, 0, tagged)} {stop})" for _ in range(count)
    ]  # fmt: skip


def words_of(tree: str) -> list[str]:
    """Return the words of a tree, without its labels."""
    return [part.rstrip(")") for part in tree.split() if not part.startswith("(")]


def write(path: Path, lines: list[str] | Iterator[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def proposals(tree: str, seed: int) -> list[str]:
    """Return the tree, and three random trees over its words."""
    words, draw = words_of(tree), Random(seed)
    trees = [tree]
    for _ in range(3):
        i = draw.randrange(len(words) - 2)
        j = draw.randrange(i + 1, len(words))
        parts = [*words[:i], f"({draw.choice(('NP', 'VP', 'PP'))} {' '.join(words[i : j + 1])})", *words[j + 1 :]]
        trees.append(f"(S {' '.join(parts)})")
    return trees


def write_trees(folder: Path) -> None:
    gold = sentences(9, 2)
    write(folder / "train.trees", sentences(150, 1))
    write(folder / "valid.trees", gold)
    write(folder / "short.trees", [tree for tree in sentences(60, 3) if len(words_of(tree)) < 9][:4])
    write(folder / "tagged.trees", [
        tree.replace("(S (NP ", "(S (NP-SBJ ", 1).replace(" (. .))", " (NP (-NONE- *T*)) (. .))")
        for tree in sentences(70, 4, tagged=True)
    ])  # fmt: skip
    write(folder / "long.trees", [*sentences(20, 5), f"(S (NP {' '.join(['the', 'dog'] * (LONG // 2))}) (VP sees) .)"])
    documents = sentences(120, 6)
    write(folder / "documents.trees", [f"{tree}\n" if i % 30 == 29 else tree for i, tree in enumerate(documents)])
    blocks = [proposals(tree, seed) for seed, tree in enumerate(gold)]
    write(folder / "proposals.trees", ["\n".join(block) + "\n" for block in blocks])
    write(folder / "numbered.trees", [f"{i}\t{tree}" for i, block in enumerate(blocks, 1) for tree in block if i != 4])


def write_texts(folder: Path) -> None:
    for seed, (name, count) in enumerate((("train", 400), ("valid", 60), ("test", 9)), 11):
        write(folder / f"{name}.txt", [" ".join(words_of(tree)) for tree in sentences(count, seed)])
    contexts = [words_of(tree) for tree in sentences(200, 14)]
    contexts[7] = sum(contexts[20:28], [])  # a sentence of some 60 words
    write(
        folder / "contexts.txt", [" ".join(words) + ("\n" if i % 50 == 49 else "") for i, words in enumerate(contexts)]
    )
    write(folder / "lines.txt", [" ".join(words_of(tree)[:6]) for tree in sentences(5, 15)])
    write(folder / "prefix.txt", [" ".join(words_of(tree)) for tree in sentences(2, 16)])


def formula(draw: Random, size: int) -> str:
    """Return a random formula with `size` operators."""
    if size == 0:
        return draw.choice("abcdef")
    if draw.random() < 0.3:
        return f"( not {formula(draw, size - 1)} )"
    left = draw.randrange(size)
    return f"( {formula(draw, left)} ( {draw.choice(('and', 'or'))} {formula(draw, size - 1 - left)} ) )"


def write_classes(folder: Path) -> None:
    """Write the files for the classifiers; their labels are random, too."""
    draw = Random(21)
    for part, longest, count in (("train", 7, 80), ("test", 13, 9)):
        for n in range(longest):
            write(folder / "logic" / f"{part}{n}", [
                f"{draw.choice(RELATIONS)}\t{formula(draw, n)}\t{formula(draw, draw.randint(0, n))}"
                for _ in range(count)
            ])  # fmt: skip
    texts = [words_of(tree) for tree in sentences(140, 22)]
    write(folder / "sentiment.trees", [
        f"({draw.choice('01234')} ({draw.choice('01234')} {words[1]}) "
        f"({draw.choice('01234')} (2 {words[0]}) (3 {words[-2]})))" for words in texts[:70]
    ])  # fmt: skip
    names = ("neutral", "entailment", "contradiction")
    write(folder / "inference.txt", [
        f"{draw.choice(names)}\t( {' '.join(a)} )\t( {' '.join(b)} )"
        for a, b in zip(texts[:70], texts[70:], strict=True)
    ])  # fmt: skip
    size = [f"{i / 16} " * 5 + str(-i / 8) for i in range(1, 9)]
    write(folder / "vectors", [f"{word} {numbers}" for word, numbers in zip(NOUNS, size, strict=True)])
    for name in ("in_domain_train.tsv", "in_domain_dev.tsv", "out_of_domain_dev.tsv"):
        lines = [f"s\t{draw.randint(0, 1)}\t\t{' '.join(x)}" for x in texts[:40]]
        for form in ("raw", "tokenized"):
            write(folder / "cola" / form / name, lines)


def write_pairs(folder: Path) -> None:
    """Write pairs of sequences, one of them with more than 256 words."""
    draw = Random(31)

    def drawn(most: int) -> list[str]:
        return [draw.choice("abcdefgh") for _ in range(draw.randint(1, most))]

    for stem, count in (("train", 150), ("dev", 9), ("test", 9)):
        lines = [drawn(9) for _ in range(count)]
        if stem == "train":
            lines[5] = [draw.choice("abcdefgh") for _ in range(LONG)]
        for end, change in (("lo", str), ("up", str.upper)):
            write(folder / "pairs" / f"{stem}.{end}", [change(" ".join(line)) for line in lines])
    for part, count in (("train", 120), ("dev", 9), ("test", 9), ("gen", 9)):
        lines = [" ".join(drawn(12)) for _ in range(count)]
        splits = ("pp_recursion", "x") if part == "gen" else ("in_distribution",)
        write(folder / "cogs" / f"{part}.tsv", [f"{line}\t{line.upper()}\t{draw.choice(splits)}" for line in lines])
    for part, count in (("train", 120), ("test", 9)):
        write(folder / "scan" / f"tasks_{part}_simple.txt", [
            f"IN: {line} OUT: {line.upper()}" for line in (" ".join(drawn(9)) for _ in range(count))
        ])  # fmt: skip
    write(folder / "out" / "letters", ["a b c d e", "h", "g f e d c b a", "a a b b c c d d e e"])
    write(folder / "out" / "problems", ["x=1,y=2,x+y", "x=85,y=-523,x*y"])
    chinese = {"the": "", "red": "红", "small": "小", "dog": "狗", "bee": "蜜蜂", "saw": "看到", "ran": "跑"}
    nouns = [f"the {adjective}{noun}" for adjective in ("", "red ", "small ") for noun in ("dog", "bee")]
    lines = [f"{noun} {end}" for noun in nouns for end in ("ran", *(f"saw {other}" for other in nouns))]
    for stem in ("train", "valid", "cg-test/cg-test"):
        texts = [line for line in lines if line.startswith("the red dog")][:5] if "cg" in stem else lines
        write(folder / "cognition" / f"{stem}.en", texts)
        write(folder / "cognition" / f"{stem}.zh", ["".join(chinese[word] for word in line.split()) for line in texts])
    write(folder / "cognition" / "cg-test" / "cg-test.compound", ["the red dog"] * 5)
    write(folder / "cognition" / "lexicon", [f"{word}\t{text or '/'}" for word, text in chinese.items()])


def write_suites(folder: Path) -> None:
    """Write files of SyntaxGym and of minimal pairs."""
    texts = [words for words in map(words_of, sentences(90, 41)) if len(words) < 8][:8]
    items = [
        {"item_number": number, "conditions": [
            {"condition_name": name, "regions": [
                {"region_number": k, "content": text}
                for k, text in enumerate((words[0], " ".join(words[1:3]), "", " ".join(words[3:])), 1)
            ]} for name, words in (("a", first), ("b", second))
        ]} for number, (first, second) in enumerate(zip(texts[::2], texts[1::2], strict=True), 1)
    ]  # fmt: skip
    suite = {
        "meta": {"name": "number_toy", "metric": "sum"},
        "region_meta": {"1": "first", "2": "two", "3": "none", "4": "rest"},
        "predictions": [{"type": "formula", "formula": "(2;%a%) < (2;%b%)"}],
        "items": items,
    }
    (folder / "suite.json").write_text(json.dumps(suite))
    pairs = [(words, [*words[:1], "near", *words[2:]]) for words in texts]
    rows = [f"t{k % 2}\tc\t{' '.join(good)}\t{' '.join(bad)}\t" for k, (good, bad) in enumerate(pairs)]
    (folder / "pairs.tsv").write_text(HEADER + "".join(f"{row}\n" for row in rows))
    write(folder / "results.csv", ["model,suite,item,correct", "m,number_prep,1,True", "m,number_prep,2,False"])


def write_released(folder: Path, run: str = "lm_fasttrees") -> None:
    """Write the parameters of a run's language model `fasttrees` under the names of the released code."""
    theirs: dict[str, np.ndarray] = {}
    with safe_open(folder / "runs" / run / "best.safetensors", framework="np") as file:
        for name in file.keys():
            inner = name.removeprefix("parameters.")
            if inner == "embedding":
                theirs |= dict.fromkeys(("encoder.weight", "decoder.weight"), file.get_tensor(name))
            elif inner == "output_bias":
                theirs["decoder.bias"] = file.get_tensor(name)
            else:
                theirs[f"rnn.{inner.replace('.ih.', '.ih.0.')}"] = file.get_tensor(name)
    save_file({name: tensor.copy() for name, tensor in theirs.items()}, folder / "released.weights")


FILES: tuple[Callable[[Path], None], ...] = (write_trees, write_texts, write_classes, write_pairs, write_suites)

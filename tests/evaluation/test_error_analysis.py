"""The counts and the paired tests of judged translations: by hand, by enumeration, and on the paper's Table 5."""

from __future__ import annotations

from itertools import product
from math import comb

import pytest

from accel.evaluation.error_analysis import CATEGORIES, CORRECT, TOTAL, count_errors, draw
from accel.evaluation.significance import holm, sign_test

TABLE_5 = {  # the paper's counts: Transformer and Treeformer
    "correct": (22, 23), "lexical": (25, 22), "pred-arg": (7, 2), "morphosyntax": (9, 7), "drop/add": (3, 4),
    "other": (1, 1),
}  # fmt: skip


def test_draws() -> None:
    sample = draw(50, 80, seed=3)
    numbers = [number for number, _ in sample]
    assert sample == draw(50, 80, seed=3) != draw(50, 80, seed=4)
    assert len(set(numbers)) == 50 and set(numbers) < set(range(80)) and numbers != sorted(numbers)
    firsts = [first for seed in range(100) for first, _ in draw(1, 4, seed)]
    assert all(10 <= firsts.count(number) <= 45 for number in range(4))
    letters = [is_a for seed in range(20) for _, is_a in draw(50, 80, seed)]
    assert 400 <= sum(letters) <= 600


def test_counts() -> None:
    """The total counts errors; its test counts the sentences in which one system has more errors than the other."""
    judgements = [
        ({"lexical", "other"}, {"lexical"}),
        ({"correct"}, {"pred-arg", "drop/add"}),
        ({"other"}, {"correct"}),
    ]
    rows = {row.name: row for row in count_errors(judgements)}
    assert list(rows) == [*CATEGORIES, TOTAL]
    assert {name: (row.first, row.second) for name, row in rows.items()} == {
        "correct": (1, 1), "lexical": (1, 1), "pred-arg": (0, 1), "morphosyntax": (0, 0), "drop/add": (0, 1),
        "other": (2, 0), TOTAL: (3, 3),
    }  # fmt: skip
    assert rows["other"][3:6] == (2, 0, 0.5) and rows[TOTAL][3:6] == (2, 1, 1.0)
    exchanged = {row.name: row for row in count_errors([(second, first) for first, second in judgements[::-1]])}
    for name, row in rows.items():
        assert exchanged[name] == row._replace(first=row.second, second=row.first, only_first=row.only_second,
                                               only_second=row.only_first)  # fmt: skip


def test_the_totals_of_table_5() -> None:
    """The printed totals, 42 and 34, are not the sums of the printed rows."""
    sums = [sum(pair[system] for name, pair in TABLE_5.items() if name != CORRECT) for system in (0, 1)]
    assert sums == [45, 36]


def test_what_table_5_can_show() -> None:
    """7 and 2 errors: no p is below 0.05, in however many sentences both systems err, which the table does not say."""
    p = [sign_test([1] * (7 - both) + [-1] * (2 - both)).p for both in (0, 1, 2)]
    assert p == pytest.approx([0.1797, 0.125, 0.0625], abs=5e-5)


def test_the_sign_test_keeps_its_level() -> None:
    """All outcomes are enumerated: the share of outcomes with a p of at most the level is the level."""
    for n in (1, 4, 9):
        p = {signs: sign_test(signs).p for signs in product((-1, 1), repeat=n)}
        for level in set(p.values()):
            assert sum(value <= level for value in p.values()) / 2**n == pytest.approx(level)
    assert sign_test([0, 2.5, 0, -1]) == sign_test([1, -7]) == (1, 1, 1.0)
    assert sign_test([0.0]).p == 1.0
    assert sign_test([1] * 60 + [-1] * 40).p == pytest.approx(2 * sum(comb(100, k) for k in range(41)) / 2**100)
    for wrong in ([], [float("nan")]):
        with pytest.raises(ValueError, match="differences"):
            sign_test(wrong)


def test_the_sign_test_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="the extra analysis is not installed")
    for b, c in ((0, 5), (7, 2), (13, 21)):
        assert sign_test([1] * b + [-1] * c).p == pytest.approx(stats.binomtest(b, b + c).pvalue)


def test_holm() -> None:
    """The least of n p is multiplied by n, the next by n - 1, ...; an adjusted p is not below the one before it."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.4]) == [0.4] and holm([1.0, 0.75]) == [1.0, 1.0]
    for wrong in ([], [1.5], [-0.1]):
        with pytest.raises(ValueError, match="p: "):
            holm(wrong)

"""The mutants of a Python file: cosmic-ray's operators for small changes, and three of ours.

Only cosmic-ray's operators are used: as a program it would write into the checkout, and would run the same tests for
all mutants. Annotations and decorators are not mutated, nor lines that remove files or send signals: a wrong one could
do harm outside the tests.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider
from parso.tree import NodeOrLeaf

from tests.mutants.mutant import Mutant, mutant_of

NOT_TOUCHED = ("rmtree", "rmdir", "unlink", "os.kill", "signal.", "replace(")
ANNOTATIONS = {"annassign", "decorator", "import_from", "import_name"}
_REPLACED = {
    "Binary": "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_FloorDiv Pow_Mul BitOr_BitAnd BitAnd_BitOr BitXor_BitOr"
    " LShift_RShift RShift_LShift",
    "Comparison": "Lt_LtE LtE_Lt Gt_GtE GtE_Gt Lt_GtE GtE_Lt LtE_Gt Gt_LtE Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is",
    "Unary": "Delete_USub Delete_Not Delete_Invert",
}
NAMES = (
    *(f"Replace{kind}Operator_{pair}" for kind, pairs in _REPLACED.items() for pair in pairs.split()),
    *("AddNot", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "NumberReplacer"),
    "ZeroIterationForLoop",
)


class DropStatement(Operator):
    """A call, or an assignment that changes an existing object, becomes `pass`."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[object]:
        if node.type == "simple_stmt" and _has_effect(node.children[0]):
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        prefix = node.get_first_leaf().prefix
        node.children[0] = parso.python.tree.Name("pass", node.start_pos, prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class DropTerm(Operator):
    """A sum loses its last term."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[object]:
        if node.type == "arith_expr":
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        del node.children[-2:]
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


class SwapArguments(Operator):
    """The first two arguments of a call change places."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[object]:
        if node.type == "arglist" and not any(x.type == "argument" for x in (node.children[0], node.children[2])):
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        first, second = node.children[0], node.children[2]
        leaves = first.get_first_leaf(), second.get_first_leaf()
        leaves[0].prefix, leaves[1].prefix = leaves[1].prefix, leaves[0].prefix
        node.children[0], node.children[2] = second, first
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        return ()


def operators() -> list[Operator]:
    provider = OperatorProvider()
    return [*(provider[name]() for name in NAMES), DropStatement(), DropTerm(), SwapArguments()]


def places(source: str) -> list[list[tuple[Operator, int]]]:
    """Return, for every place of the code, the operators that can mutate it, each with the number of its occurrence."""
    lines, at = source.split("\n"), {}
    nodes = list(ast_nodes(get_ast(source)))
    for operator in operators():
        occurrence = -1
        for node in nodes:
            for position in operator.mutation_positions(node):
                occurrence += 1
                if _is_run(node) and not any(word in lines[position[0][0] - 1] for word in NOT_TOUCHED):
                    at.setdefault(position, []).append((operator, occurrence))
    return [at[position] for position in sorted(at)]


def mutant(path: str, source: str, operator: Operator, occurrence: int) -> Mutant | None:
    """Return the mutant; None if it is no Python, or equals the source, or only loses a `strict=True`."""
    mutated = mutate_code(source, operator, occurrence)
    if mutated is not None and mutated.count("strict=True") < source.count("strict=True"):
        return None
    try:
        if mutated is None or ast.dump(ast.parse(mutated)) == ast.dump(ast.parse(source)):
            return None
    except SyntaxError:
        return None
    return mutant_of(path, type(operator).__name__, source, mutated)


def _has_effect(node: NodeOrLeaf) -> bool:
    if node.type == "atom_expr":
        return node.children[-1].get_code().startswith("(")
    return node.type == "expr_stmt" and (
        node.children[0].type == "atom_expr" or str(node.children[1].get_code()).strip() not in ("=", "")
    ) and node.children[1].type != "annassign"  # fmt: skip


def _is_run(node: NodeOrLeaf) -> bool:
    """Return False for nodes in annotations, decorators or imports, and for the star of a parameter list."""
    child, parent = node, node.parent
    if parent is not None and parent.type in ("parameters", "param") and node.type == "operator":
        return False
    while parent is not None:
        if child.type in ANNOTATIONS:
            return False
        if parent.type == "tfpdef" or (parent.type == "funcdef" and child is parent.annotation):
            return False
        child, parent = parent, parent.parent
    return True

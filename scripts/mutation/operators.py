# SPDX-License-Identifier: Apache-2.0
"""What may be put in the place of an expression, operator by operator.

Each function yields (operator, new text). The new text is never wider than the old one: `chosen ?
new : old` must have the width of `old`, also in a concatenation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyslang.ast as ast

Change = tuple[str, str]
Text = Callable[[Any], str]

_BINARY = ast.BinaryOperator
_UNARY = ast.UnaryOperator
# Operator: its class, the operators that take its place, and whether an operand may be left out.
_REPLACED: dict[Any, tuple[str, tuple[str, ...], bool]] = {
    _BINARY.Add: ("arithmetic", ("-",), True),
    _BINARY.Subtract: ("arithmetic", ("+",), True),
    _BINARY.Multiply: ("arithmetic", ("+",), False),
    _BINARY.LogicalAnd: ("logical", ("||",), True),
    _BINARY.LogicalOr: ("logical", ("&&",), True),
    _BINARY.BinaryAnd: ("bitwise", ("|",), True),
    _BINARY.BinaryOr: ("bitwise", ("&",), True),
    _BINARY.BinaryXor: ("bitwise", ("|",), True),
    _BINARY.Equality: ("relational", ("!=",), False),
    _BINARY.Inequality: ("relational", ("==",), False),
    _BINARY.LessThan: ("relational", ("<=", ">="), False),
    _BINARY.LessThanEqual: ("relational", ("<", ">"), False),
    _BINARY.GreaterThan: ("relational", (">=", "<="), False),
    _BINARY.GreaterThanEqual: ("relational", (">", "<"), False),
    _BINARY.LogicalShiftLeft: ("shift", (">>",), False),
    _BINARY.LogicalShiftRight: ("shift", ("<<",), False),
    _BINARY.ArithmeticShiftRight: ("shift", ("<<<",), False),
}
_REDUCTIONS = {_UNARY.BitwiseAnd: "|", _UNARY.BitwiseOr: "&", _UNARY.BitwiseXor: "|"}
_LARGEST_STEP = 64  # bits of a constant that is changed by one
JUDGED = frozenset(  # a condition that has mutants of its own which negate it
    {_BINARY.Equality, _BINARY.Inequality, _BINARY.LessThan, _BINARY.GreaterThan}
    | {_BINARY.LessThanEqual, _BINARY.GreaterThanEqual}
)


def binary(expr: Any, text: Text) -> Iterator[Change]:
    """Another operator, or one operand alone."""
    kind, others, droppable = _REPLACED.get(expr.op, ("", (), False))
    left, right = text(expr.left), text(expr.right)
    for other in others:
        yield kind, f"({left}) {other} ({right})"
    if not droppable:
        return
    for kept, operand in ((left, expr.left), (right, expr.right)):
        if kind == "logical" and operand.type.bitWidth > 1:
            yield kind, f"(({kept}) != 0)"
        elif kind != "arithmetic" or kept is left:
            yield kind, f"({kept})"


def unary(expr: Any, text: Text) -> Iterator[Change]:
    """Negation left out; another reduction."""
    operand = text(expr.operand)
    if expr.op == _UNARY.LogicalNot:
        yield "logical", f"!(!({operand}))"
    elif expr.op == _UNARY.BitwiseNot:
        yield "bitwise", f"({operand})"
    elif expr.op in _REDUCTIONS and expr.operand.type.bitWidth > 1:
        yield "bitwise", f"{_REDUCTIONS[expr.op]}({operand})"


def literal(expr: Any, source: str) -> Iterator[Change]:
    """The neighbours of an integer literal, in its own width."""
    width, value = expr.type.bitWidth, int(expr.value)
    sized = "'" in source
    if width > _LARGEST_STEP or (not sized and value > 1 << 30):
        return
    top = (1 << width) - 1
    neighbours = [1 - value] if width == 1 else [n for n in (value + 1, value - 1) if 0 <= n <= top]
    for number in neighbours:
        yield "constant", f"{width}'d{number}" if sized else f"{number}"


def named(expr: Any, source: str) -> Iterator[Change]:
    """The neighbours of a parameter, or of a member in its enum."""
    symbol, width = expr.symbol, expr.type.bitWidth
    if isinstance(symbol, ast.EnumValueSymbol):
        members = [member.name for member in expr.type.canonicalType if hasattr(member, "value")]
        at = members.index(symbol.name) if symbol.name in members else -1
        if at >= 0 and len(members) > 1:
            yield "constant", members[(at + 1) % len(members)]
    elif isinstance(symbol, ast.ParameterSymbol) and expr.type.isIntegral:
        if expr.type.isEnum or expr.type.isStruct or width > _LARGEST_STEP:
            return
        if width == 1:
            yield "constant", f"!{source}"
            return
        one = "1" if expr.type.isSigned else f"{width}'d1"
        yield "constant", f"({source} + {one})"
        yield "constant", f"({source} - {one})"


def conditional(expr: Any, text: Text) -> Iterator[Change]:
    """?: with its arms swapped, or with one arm alone."""
    first, second = text(expr.left), text(expr.right)
    condition = text(expr.conditions[0].expr)
    yield "ternary", f"(({condition}) ? ({second}) : ({first}))"
    if first != second:
        yield "condition", f"({first})"
        yield "condition", f"({second})"


def element(expr: Any, text: Text) -> Iterator[Change]:
    """The neighbours of the element or bit that an index selects."""
    value, index = text(expr.value), expr.selector
    for step in (1, -1):
        if index.constant is not None and not _inside(expr.value, int(index.constant.value) + step):
            continue
        yield "index", f"{value}[{_moved(text(index), step)}]"


def slice_of(expr: Any, text: Text) -> Iterator[Change]:
    """The slice one bit up or down, and without its top bit."""
    value, left, right = text(expr.value), expr.left, expr.right
    if expr.selectionKind != ast.RangeSelectionKind.Simple:
        sign = {
            ast.RangeSelectionKind.IndexedUp: "+:",
            ast.RangeSelectionKind.IndexedDown: "-:",
        }[expr.selectionKind]
        if left.constant is None:
            for way in "+-":
                yield "index", f"{value}[({text(left)}) {way} 1 {sign} {text(right)}]"
        return
    if left.constant is None or right.constant is None:
        return
    high, low = int(left.constant.value), int(right.constant.value)
    if high < low:
        return
    for step in (1, -1):
        if _inside(expr.value, high + step) and _inside(expr.value, low + step):
            yield "slice", f"{value}[{_moved(text(left), step)}:{_moved(text(right), step)}]"
    if high > low:
        yield "slice", f"{value}[{_moved(text(left), -1)}:{text(right)}]"


def _moved(bound: str, step: int) -> str:
    """A bound one higher or lower; its parameters stay: another build gives them other values."""
    return str(int(bound) + step) if bound.isdigit() else f"({bound}) {'+' if step > 0 else '-'} 1"


def _inside(value: Any, index: int) -> bool:
    if not value.type.hasFixedRange:
        return False
    bounds = value.type.fixedRange
    return bool(min(bounds.left, bounds.right) <= index <= max(bounds.left, bounds.right))

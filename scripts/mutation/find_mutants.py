# SPDX-License-Identifier: Apache-2.0
"""Search for mutants: visits the elaborated design (slang), and finds every place to change.

Compile-time constructs cannot be switched at run time and are skipped: parameters, types and
widths, generate conditions, loop bounds, replication counts, functions that a constant calls. Also
skipped are clocks, assertions and signals for them alone, text made by a macro, `nf_wave_pkg`
(names of codes in waves), and assignments to `unused` signals.

The replacement of an expression is never wider than the original: `chosen ? new : old` must have
the width of `old`, also in a concatenation.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyslang.ast as ast

from scripts.build import slang
from scripts.build.filelist import FileList, no_design
from scripts.mutation.source_mutant import Part, SourceMutant, numbered
from scripts.plan import testplan

_NO_MODULE = "nf_wave_pkg"
_NOT_STUCK = ("clk", "rst_n")
_SELECTS = (ast.ElementSelectExpression, ast.RangeSelectExpression, ast.MemberAccessExpression)
_SIMPLE = ast.RangeSelectionKind.Simple
_CLOCKED = ast.ProceduralBlockKind.AlwaysFF
Parameters = Sequence[tuple[str, int]]
"""Parameters of the top module that differ from the source."""


@dataclass(frozen=True)
class _Context:
    """Context of a visited node of the syntax tree.

    Attributes:
        module: Name of the module.
        feeds: Module whose instance input this is, "" elsewhere.
        clocked: In a clocked process.
        reset: In its reset branch.
        assigned: Variables that the combinational block has assigned so far.
    """

    module: str
    feeds: str = ""
    clocked: bool = False
    reset: bool = False
    assigned: frozenset[str] = frozenset()  # variables that the combinational block has set by now


def find(
    root: Path, top: str, files: FileList, more: Sequence[Parameters] = ()
) -> tuple[list[SourceMutant], dict[str, str]]:
    """Find all mutants of the design below `root`.

    Args:
        root: folder of the sources.
        top: top module.
        files: its file list.
        more: further parameter sets to elaborate after the default one.

    Returns:
        The mutants, and the sources by file (one character a byte).

    Raises:
        BuildError: slang cannot read the design.
    """
    sources = {name: (root / name).read_bytes().decode("latin-1") for name in files.sources}
    # slang resolves every link, also the one that stands for a folder with an odd name.
    names = {str((root / name).resolve()): name for name in files.sources}
    found: dict[tuple[str, tuple[Part, ...]], SourceMutant] = {}
    walked: set[tuple[str, ...]] = set()
    constant: set[str] = set()
    for parameters in ((), *more):
        compilation = slang.elaborate(top, files, root, parameters)
        for place, mutant in _Finder(compilation, sources, names, walked, constant).all().items():
            found.setdefault(place, replace(mutant, extra=bool(parameters)))
    return numbered(found.values(), sources), sources


def modules(root: Path, top: str, files: FileList, parameters: Parameters = ()) -> frozenset[str]:
    """Return the names of all modules and packages in a design.

    A test on this design can kill mutants of no other module.
    """
    compilation = slang.elaborate(top, files, root, parameters)
    found = {package.name for package in compilation.getPackages()}

    def note(node: Any) -> None:
        if isinstance(node, ast.InstanceSymbol):
            found.add(node.body.definition.name)

    for instance in compilation.getRoot().topInstances:  # other modules are no part of the design
        instance.visit(note)
    return frozenset(found)


def shapes() -> list[Parameters]:
    """Return parameter sets that instantiate generate branches absent from the default design."""
    plan = testplan.read()
    return [plan.build(name).parameters for name in ("secded", "tern5")]


class _Finder:
    def __init__(
        self,
        compilation: Any,
        sources: dict[str, str],
        names: dict[str, str],
        walked: set[tuple[str, ...]],
        constant: set[str],
    ) -> None:
        self._compilation = compilation
        self._manager = compilation.sourceManager
        self._sources = sources
        self._names = names
        self._walked = walked  # modules with their parameters: another instance has nothing new
        self._buffers: dict[int, str | None] = {}
        self._no_design = {name: no_design(text.splitlines()) for name, text in sources.items()}
        self._found: dict[tuple[str, tuple[Part, ...]], SourceMutant] = {}
        self._at_compile_time = constant  # functions that a constant calls, in any shape

    def all(self) -> dict[tuple[str, tuple[Part, ...]], SourceMutant]:
        """Visit the whole design, and return the mutants found.

        Keys are the file and the parts of the source that a mutant replaces.
        """
        root = self._compilation.getRoot()
        root.visit(self._constant_calls)
        for package in self._compilation.getPackages():
            if package.name not in (_NO_MODULE, "std"):
                self._scope(package, _Context(package.name))
        for instance in root.topInstances:
            self._instance(instance)
        return self._found

    # ---- places and texts

    def _span(self, node: Any) -> tuple[str, int, int] | None:
        """Return (file, first byte, end byte) of a node; None for text from a macro.

        Text of another file than the sources also gives None.
        """
        start, end = node.sourceRange.start, node.sourceRange.end
        if self._manager.isMacroLoc(start) or self._manager.isMacroLoc(end):
            return None
        buffer = start.buffer.id
        if buffer not in self._buffers:
            path = str(self._manager.getFullPath(start.buffer))
            self._buffers[buffer] = self._names.get(path)
        name = self._buffers[buffer]
        return None if name is None else (name, start.offset, end.offset)

    def _text(self, node: Any) -> str:
        span = self._span(node)
        return self._sources[span[0]][span[1] : span[2]] if span else ""

    def _add(
        self,
        place: _Context,
        operator: str,
        changes: Iterable[tuple[Any, str]],
        statement: bool = False,
    ) -> None:
        parts, file = [], ""
        for node, new in changes:
            span = self._span(node)
            if span is None:
                return
            file, start, end = span
            if "".join(self._sources[file][start:end].split()) == "".join(new.split()):
                return
            parts.append(Part(start, end, new, statement))
        source, key = self._sources[file], (file, tuple(parts))
        line = source.count("\n", 0, parts[0].start) + 1
        if line in self._no_design[file]:
            return
        self._found.setdefault(
            key,
            SourceMutant("", file, place.module, operator, line, tuple(parts), place.feeds),
        )

    # ---- modules

    def _constant_calls(self, node: Any) -> None:
        if isinstance(node, ast.ParameterSymbol) and node.initializer is not None:
            node.initializer.visit(self._note_call)
        if isinstance(node, ast.GenerateBlockSymbol) and node.conditionExpression is not None:
            node.conditionExpression.visit(self._note_call)

    def _note_call(self, node: Any) -> None:
        called = getattr(node, "subroutine", None)
        if isinstance(called, ast.SubroutineSymbol):
            self._at_compile_time.add(called.name)
            called.body.visit(self._note_call)

    def _instance(self, instance: Any) -> None:
        body = instance.body
        shape = (body.definition.name, *(str(one.value) for one in body.parameters))
        if shape not in self._walked:
            self._walked.add(shape)
            self._scope(body, _Context(body.definition.name))

    def _scope(self, scope: Any, place: _Context) -> None:
        for member in scope:
            if isinstance(member, ast.ContinuousAssignSymbol):
                self._assignment(member.assignment, place)
            elif isinstance(member, ast.ProceduralBlockSymbol):
                clocked = member.procedureKind == _CLOCKED
                self._statement(member.body, replace(place, clocked=clocked))
            elif isinstance(member, ast.NetSymbol) and member.initializer is not None:
                self._expression(member.initializer, place)
            elif isinstance(member, ast.SubroutineSymbol):
                if member.name not in self._at_compile_time:
                    self._statement(member.body, place)
            elif isinstance(member, ast.GenerateBlockSymbol):
                if not member.isUninstantiated:
                    self._scope(member, place)
            elif isinstance(member, ast.GenerateBlockArraySymbol):
                for entry in member.entries:
                    self._scope(entry, place)
            elif isinstance(member, ast.InstanceSymbol):
                feeds = member.body.definition.name
                self._connections(member, replace(place, feeds=feeds))
                self._instance(member)

    def _connections(self, instance: Any, place: _Context) -> None:
        for connection in instance.portConnections:
            port, expr = connection.port, connection.expression
            if expr is None or port.direction != ast.ArgumentDirection.In:
                continue
            span = self._span(expr)
            if span is None or "." in self._sources[span[0]][span[1] - 1 : span[1] + 1]:
                continue  # `.clk` and `.*`: nothing can be put there
            self._expression(expr, place)
            if port.type.bitWidth == 1 and port.name not in _NOT_STUCK:
                self._stuck(expr, place)

    # ---- statements

    def _statement(self, node: Any, place: _Context) -> _Context:
        """Add the mutants of a statement and its parts, and return the context after it."""
        if isinstance(node, ast.TimedStatement):
            return self._statement(node.stmt, place)
        if isinstance(node, ast.BlockStatement):
            return self._statement(node.body, place)
        if isinstance(node, ast.StatementList):
            for first, second in zip(node.list, [*node.list[1:], None], strict=True):
                place = self._statement(first, place)
                self._swapped(first, second, place)
            return place
        if isinstance(node, ast.ExpressionStatement):
            return self._assign_statement(node, place)
        if isinstance(node, ast.ConditionalStatement):
            return self._if(node, place)
        if isinstance(node, ast.CaseStatement):
            return self._case(node, place)
        if isinstance(node, ast.ForLoopStatement):
            return self._statement(node.body, place)
        if isinstance(node, ast.ReturnStatement) and node.expr is not None:
            self._expression(node.expr, place)
        return place

    def _assign_statement(self, node: Any, place: _Context) -> _Context:
        if not isinstance(node.expr, ast.AssignmentExpression):
            return place
        self._assignment(node.expr, place)
        target = _target(node.expr.left)
        if place.reset:
            self._add(place, "reset", [(node, ";")], statement=True)
        elif place.clocked or target in place.assigned:  # else it would be a latch
            self._add(place, "assignment", [(node, ";")], statement=True)
        return place if place.clocked else replace(place, assigned=place.assigned | {target})

    def _swapped(self, first: Any, second: Any, place: _Context) -> None:
        """Add the mutant that swaps the values of two adjacent assignments of a clocked process."""
        pair = (first, second)
        if not place.clocked or not all(isinstance(s, ast.ExpressionStatement) for s in pair):
            return
        if not all(isinstance(s.expr, ast.AssignmentExpression) for s in pair):
            return
        one, two = first.expr, second.expr
        if one.left.type.isMatching(two.left.type):
            new = [
                (one.right, f"({self._text(two.right)})"),
                (two.right, f"({self._text(one.right)})"),
            ]
            if self._text(one.right) != self._text(two.right):
                self._add(place, "assignment", new)

    def _if(self, node: Any, place: _Context) -> _Context:
        condition = node.conditions[0].expr
        is_reset = place.clocked and self._text(condition) == "!rst_n"
        if is_reset:
            self._add(place, "reset", [(condition, "1'b0")])
        else:
            alone = place.clocked and node.ifFalse is None
            self._condition(condition, place, "enable" if alone else "condition")
            self._expression(condition, place)
        after = self._statement(node.ifTrue, replace(place, reset=is_reset or place.reset))
        if node.ifFalse is not None:
            other = self._statement(node.ifFalse, place)
            after = replace(after, assigned=after.assigned & other.assigned | place.assigned)
        else:
            after = place
        return replace(after, reset=place.reset)

    def _condition(self, condition: Any, place: _Context, operator: str) -> None:
        text = self._text(condition)
        simple = _without_conversion(condition)
        judged = isinstance(simple, ast.BinaryExpression) and simple.op in JUDGED
        negated = isinstance(simple, ast.UnaryExpression)
        changes = ["1'b1", "1'b0"] if judged or negated else [f"!({text})", "1'b1", "1'b0"]
        for new in changes:
            self._add(place, operator, [(condition, new)])

    def _case(self, node: Any, place: _Context) -> _Context:
        self._expression(node.expr, place)
        items = list(node.items)
        for item in items:
            self._statement(item.stmt, place)
            self._add(place, "case", [(item.stmt, ";")], statement=True)
        for one, two in itertools.pairwise(items):
            swapped = [(one.stmt, self._text(two.stmt)), (two.stmt, self._text(one.stmt))]
            if self._text(one.stmt) != self._text(two.stmt):
                self._add(place, "case", swapped, statement=True)
        if node.defaultCase is not None:
            self._statement(node.defaultCase, place)
        return place

    # ---- expressions

    def _assignment(self, node: Any, place: _Context) -> None:
        if _target(node.left).startswith("unused"):
            return
        self._expression(node.right, place)
        self._stuck(node.right, place)

    def _stuck(self, node: Any, place: _Context) -> None:
        kind = node.type
        value = _without_conversion(node)
        is_literal = isinstance(value, ast.IntegerLiteral | ast.UnbasedUnsizedIntegerLiteral)
        if not kind.isIntegral or kind.isEnum or is_literal:
            return
        for new in ("1'b0", "1'b1") if kind.bitWidth == 1 else ("'0",):
            self._add(place, "stuck", [(node, new)])

    def _expression(self, node: Any, place: _Context) -> None:
        """Add the mutants of an expression that is read, and of all its parts."""
        if isinstance(node, ast.ConversionExpression):
            self._expression(node.operand, place)
            return
        for operator, new in self._changes(node):
            self._add(place, "reset" if place.reset else operator, [(node, new)])
        for operand in _operands(node):
            self._expression(operand, place)

    def _changes(self, node: Any) -> Iterator[Change]:
        rule = _RULES.get(type(node))
        yield from rule(node, self._text) if rule else ()


def _operands(node: Any) -> Iterator[Any]:
    """Yield the parts of an expression that are evaluated at run time."""
    if isinstance(node, ast.BinaryExpression):
        yield from (node.left, node.right)
    elif isinstance(node, ast.UnaryExpression):
        yield node.operand
    elif isinstance(node, ast.ConditionalExpression):
        yield from (node.conditions[0].expr, node.left, node.right)
    elif isinstance(node, ast.ConcatenationExpression):
        yield from node.operands
    elif isinstance(node, ast.ReplicationExpression):
        yield node.concat
    elif _is_select(node):
        yield from _indices(node)
    elif isinstance(node, ast.CallExpression):
        at_run_time = not node.isSystemCall or node.subroutineName in ("$countones", "$onehot0")
        yield from node.arguments if at_run_time else ()


def _indices(node: Any) -> Iterator[Any]:
    """Yield the variable indices of a select and of nested selects.

    The selected object itself is a name that nothing can replace.
    """
    while _is_select(node):
        if getattr(node, "selector", None) is not None and node.selector.constant is None:
            yield node.selector
        elif getattr(node, "selectionKind", _SIMPLE) != _SIMPLE:
            yield node.left
        node = node.value


def _is_select(node: Any) -> bool:
    return isinstance(node, _SELECTS)


def _without_conversion(node: Any) -> Any:
    while isinstance(node, ast.ConversionExpression) and node.isImplicit:
        node = node.operand
    return node


def _target(node: Any) -> str:
    """Return the name of the variable that an assignment writes, or of which it writes a part."""
    while hasattr(node, "value") and not isinstance(node, ast.NamedValueExpression):
        node = node.value
    symbol = getattr(node, "symbol", None)
    return symbol.name if symbol is not None else ""


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
JUDGED = frozenset(  # operators with mutants that negate the condition
    {_BINARY.Equality, _BINARY.Inequality, _BINARY.LessThan, _BINARY.GreaterThan}
    | {_BINARY.LessThanEqual, _BINARY.GreaterThanEqual}
)


def binary(expr: Any, text: Text) -> Iterator[Change]:
    """Yield (operator class, new text): other operators, and one operand alone."""
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
    """Yield (operator class, new text): the operand without its negation, or another reduction."""
    operand = text(expr.operand)
    if expr.op == _UNARY.LogicalNot:
        yield "logical", f"!(!({operand}))"
    elif expr.op == _UNARY.BitwiseNot:
        yield "bitwise", f"({operand})"
    elif expr.op in _REDUCTIONS and expr.operand.type.bitWidth > 1:
        yield "bitwise", f"{_REDUCTIONS[expr.op]}({operand})"


def literal(expr: Any, text: Text) -> Iterator[Change]:
    """Yield ("constant", new text): the neighbours of an integer literal, in its width."""
    width, value = expr.type.bitWidth, int(expr.value)
    sized = "'" in text(expr)
    if width > _LARGEST_STEP or (not sized and value > 1 << 30):
        return
    top = (1 << width) - 1
    neighbours = [1 - value] if width == 1 else [n for n in (value + 1, value - 1) if 0 <= n <= top]
    for number in neighbours:
        yield "constant", f"{width}'d{number}" if sized else f"{number}"


def named(expr: Any, text: Text) -> Iterator[Change]:
    """Yield ("constant", new text): a parameter plus or minus 1, or the next member of an enum."""
    symbol, width, source = expr.symbol, expr.type.bitWidth, text(expr)
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
    """Yield (operator class, new text): ?: with its arms swapped, or one arm alone."""
    first, second = text(expr.left), text(expr.right)
    condition = text(expr.conditions[0].expr)
    yield "ternary", f"(({condition}) ? ({second}) : ({first}))"
    if first != second:
        yield "condition", f"({first})"
        yield "condition", f"({second})"


def element(expr: Any, text: Text) -> Iterator[Change]:
    """Yield ("index", new text): the element or bit next to the one that an index selects."""
    value, index = text(expr.value), expr.selector
    for step in (1, -1):
        if index.constant is not None and not _inside(expr.value, int(index.constant.value) + step):
            continue
        yield "index", f"{value}[{_moved(text(index), step)}]"


def slice_of(expr: Any, text: Text) -> Iterator[Change]:
    """Yield (operator class, new text): a slice one bit up or down, or without its top bit."""
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
    """Return the text of a bound or index plus `step`.

    Names of parameters are kept, because another build gives them other values.
    """
    return str(int(bound) + step) if bound.isdigit() else f"({bound}) {'+' if step > 0 else '-'} 1"


def _inside(value: Any, index: int) -> bool:
    if not value.type.hasFixedRange:
        return False
    bounds = value.type.fixedRange
    return bool(min(bounds.left, bounds.right) <= index <= max(bounds.left, bounds.right))


_RULES: dict[type, Callable[[Any, Text], Iterable[Change]]] = {
    ast.BinaryExpression: binary,
    ast.UnaryExpression: unary,
    ast.ConditionalExpression: conditional,
    ast.ElementSelectExpression: element,
    ast.RangeSelectExpression: slice_of,
    ast.IntegerLiteral: literal,
    ast.NamedValueExpression: named,
    ast.UnbasedUnsizedIntegerLiteral: lambda expr, text: [
        ("constant", "'0" if text(expr) == "'1" else "'1")
    ],
}
"""Changes of an expression by its kind."""

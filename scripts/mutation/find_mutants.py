# SPDX-License-Identifier: Apache-2.0
"""Walks the elaborated design (slang) and finds every place that has mutants.

What decides at compile time cannot be switched at run time and is left out: parameters, types and
widths, generate, bounds of loops, replication counts, functions that a constant calls. So are
clocks, assertions and what they alone look at, text that a macro makes, `nf_wave_pkg`, which names
codes in waves, and what `unused` signals take in, which tell lint that nobody reads it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyslang.ast as ast

from scripts.build import slang
from scripts.build.design_lines import no_design
from scripts.build.filelist import FileList
from scripts.mutation import operators
from scripts.mutation.mutant import Mutant, Part, numbered
from scripts.plan import testplan

_NO_MODULE = "nf_wave_pkg"
_NOT_STUCK = ("clk", "rst_n")
_SELECTS = (ast.ElementSelectExpression, ast.RangeSelectExpression, ast.MemberAccessExpression)
_SIMPLE = ast.RangeSelectionKind.Simple
_CLOCKED = ast.ProceduralBlockKind.AlwaysFF
Parameters = Sequence[tuple[str, int]]
"""Of the top module, where they are not as in the source."""


@dataclass(frozen=True)
class Place:
    """Where the walk is: in which module, in a clocked process, in its reset branch; `feeds`: at an
    input of an instance of which module."""

    module: str
    feeds: str = ""
    clocked: bool = False
    reset: bool = False
    assigned: frozenset[str] = frozenset()  # variables that the combinational block has set by now


def find(
    root: Path, top: str, files: FileList, more: Sequence[Parameters] = ()
) -> tuple[list[Mutant], dict[str, str]]:
    """All mutants of the design below `root`, with its parameters as in the source and then with
    each set of `more`; and the sources by file (one character a byte). BuildError when slang cannot
    read it."""
    sources = {name: (root / name).read_bytes().decode("latin-1") for name in files.sources}
    # slang tells places behind every link, also behind the one that stands for an odd folder name.
    names = {str((root / name).resolve()): name for name in files.sources}
    paths, includes = ([root / name for name in of] for of in (files.sources, files.includes))
    found: dict[tuple[str, tuple[Part, ...]], Mutant] = {}
    walked: set[tuple[str, ...]] = set()
    for parameters in ((), *more):
        compilation = slang.elaborate(top, paths, includes, parameters)
        for place, mutant in _Walk(compilation, sources, names, walked).all().items():
            found.setdefault(place, replace(mutant, extra=bool(parameters)))
    return numbered(found.values(), sources), sources


def modules(root: Path, top: str, files: FileList, parameters: Parameters = ()) -> frozenset[str]:
    """Names of all modules and packages of a design: a test on it can kill mutants of no other."""
    paths, includes = ([root / name for name in names] for names in (files.sources, files.includes))
    compilation = slang.elaborate(top, paths, includes, parameters)
    found = {package.name for package in compilation.getPackages()}

    def note(node: Any) -> None:
        if isinstance(node, ast.InstanceSymbol):
            found.add(node.body.definition.name)

    compilation.getRoot().visit(note)
    return frozenset(found)


def shapes() -> list[Parameters]:
    """Sets of parameters that make branches of a generate which the default design has not got."""
    plan = testplan.read()
    return [plan.build(name).parameters for name in ("secded", "tern5")]


class _Walk:
    def __init__(
        self,
        compilation: Any,
        sources: dict[str, str],
        names: dict[str, str],
        walked: set[tuple[str, ...]],
    ) -> None:
        self._compilation = compilation
        self._manager = compilation.sourceManager
        self._sources = sources
        self._names = names
        self._walked = walked  # modules with their parameters: another instance has nothing new
        self._buffers: dict[int, str | None] = {}
        self._no_design = {name: no_design(text.splitlines()) for name, text in sources.items()}
        self._found: dict[tuple[str, tuple[Part, ...]], Mutant] = {}
        self._at_compile_time: set[str] = set()

    def all(self) -> dict[tuple[str, tuple[Part, ...]], Mutant]:
        """Mutants by file and change."""
        root = self._compilation.getRoot()
        root.visit(self._constant_calls)
        for package in self._compilation.getPackages():
            if package.name not in (_NO_MODULE, "std"):
                self._scope(package, Place(package.name))
        for instance in root.topInstances:
            self._instance(instance)
        return self._found

    # ---- places and texts

    def _span(self, node: Any) -> tuple[str, int, int] | None:
        """File and bytes of a node; None for what a macro or another file has made."""
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
        place: Place,
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
        last = source.count("\n", 0, parts[0].end) + 1
        if line in self._no_design[file]:
            return
        self._found.setdefault(
            key, Mutant("", file, place.module, operator, line, last, tuple(parts), place.feeds)
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
            self._scope(body, Place(body.definition.name))

    def _scope(self, scope: Any, place: Place) -> None:
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

    def _connections(self, instance: Any, place: Place) -> None:
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

    def _statement(self, node: Any, place: Place) -> Place:
        """Walk a statement; the place behind it."""
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

    def _assign_statement(self, node: Any, place: Place) -> Place:
        if not isinstance(node.expr, ast.AssignmentExpression):
            return place
        self._assignment(node.expr, place)
        target = _target(node.expr.left)
        if place.reset:
            self._add(place, "reset", [(node, ";")], statement=True)
        elif place.clocked or target in place.assigned:  # else it would be a latch
            self._add(place, "assignment", [(node, ";")], statement=True)
        return place if place.clocked else replace(place, assigned=place.assigned | {target})

    def _swapped(self, first: Any, second: Any, place: Place) -> None:
        """Two neighbouring assignments of a clocked process, each with the value of the other."""
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

    def _if(self, node: Any, place: Place) -> Place:
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

    def _condition(self, condition: Any, place: Place, operator: str) -> None:
        text = self._text(condition)
        simple = _without_conversion(condition)
        judged = isinstance(simple, ast.BinaryExpression) and simple.op in operators.JUDGED
        negated = isinstance(simple, ast.UnaryExpression)
        changes = ["1'b1", "1'b0"] if judged or negated else [f"!({text})", "1'b1", "1'b0"]
        for new in changes:
            self._add(place, operator, [(condition, new)])

    def _case(self, node: Any, place: Place) -> Place:
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

    def _assignment(self, node: Any, place: Place) -> None:
        if _target(node.left).startswith("unused"):
            return
        self._expression(node.right, place)
        self._stuck(node.right, place)

    def _stuck(self, node: Any, place: Place) -> None:
        kind = node.type
        value = _without_conversion(node)
        is_literal = isinstance(value, ast.IntegerLiteral | ast.UnbasedUnsizedIntegerLiteral)
        if not kind.isIntegral or kind.isEnum or is_literal:
            return
        for new in ("1'b0", "1'b1") if kind.bitWidth == 1 else ("'0",):
            self._add(place, "stuck", [(node, new)])

    def _expression(self, node: Any, place: Place) -> None:
        """Mutants of an expression that is read, and of all its parts."""
        if isinstance(node, ast.ConversionExpression):
            self._expression(node.operand, place)
            return
        for operator, new in self._changes(node):
            self._add(place, "reset" if place.reset else operator, [(node, new)])
        for operand in _operands(node):
            self._expression(operand, place)

    def _changes(self, node: Any) -> Iterator[operators.Change]:
        rules: dict[type, Callable[[], Iterable[operators.Change]]] = {
            ast.BinaryExpression: lambda: operators.binary(node, self._text),
            ast.UnaryExpression: lambda: operators.unary(node, self._text),
            ast.ConditionalExpression: lambda: operators.conditional(node, self._text),
            ast.ElementSelectExpression: lambda: operators.element(node, self._text),
            ast.RangeSelectExpression: lambda: operators.slice_of(node, self._text),
            ast.IntegerLiteral: lambda: operators.literal(node, self._text(node)),
            ast.NamedValueExpression: lambda: operators.named(node, self._text(node)),
            ast.UnbasedUnsizedIntegerLiteral: lambda: [
                ("constant", "'0" if self._text(node) == "'1" else "'1")
            ],
        }
        yield from rules.get(type(node), tuple)()


def _operands(node: Any) -> Iterator[Any]:
    """Parts of an expression that are evaluated at run time."""
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
    """Indices of a select and of the selects that it is made on; what is selected from is a name,
    and nothing else may stand in its place."""
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
    """The variable that an assignment writes, or a part of it."""
    while hasattr(node, "value") and not isinstance(node, ast.NamedValueExpression):
        node = node.value
    symbol = getattr(node, "symbol", None)
    return symbol.name if symbol is not None else ""

# SPDX-License-Identifier: Apache-2.0
"""Textual edits of RTL sources by hand, as parts that a number switches at run time.

slang parses a source before and after its edits. Both syntax trees are compared from the root down
to the smallest statement, `assign`, condition or instance input that holds a difference, which is
then switched as a whole: no width or sign of an edited operand reaches the original. Declarations
of new names, and processes that drive these alone, are added for every number. All other
differences (types, parameters, ports, instances, removed processes) need a separate build.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyslang
from pyslang import parsing, syntax

from scripts.build import slang
from scripts.build.filelist import FileList, read_source
from scripts.build.sources import apply_edits
from scripts.build.verilator import MACRO
from scripts.common.paths import ROOT
from scripts.common.records import Edit
from scripts.mutation.find_mutants import Parameters, shapes
from scripts.mutation.run_mutants import variant
from scripts.mutation.source_mutant import Part, SourceMutant
from scripts.plan.listed_mutants import ListedMutant

_KIND = syntax.SyntaxKind
_SCOPES = (
    *(_KIND.CompilationUnit, _KIND.ModuleDeclaration, _KIND.PackageDeclaration),
    *(_KIND.GenerateBlock, _KIND.GenerateRegion),
)
_ASSIGNMENTS = (_KIND.AssignmentExpression, _KIND.NonblockingAssignmentExpression)
_DECLARATIONS = (_KIND.DataDeclaration, _KIND.ParameterDeclarationStatement)
_PROCESSES = (_KIND.ContinuousAssign, _KIND.AlwaysCombBlock, _KIND.AlwaysFFBlock)
_WRAPPED = (
    *(_KIND.NamedPortConnection, _KIND.SimplePropertyExpr, _KIND.SimpleSequenceExpr),
    _KIND.ParenthesizedExpression,
)
# Expressions whose width no context changes: `number ? new : old` changes none of them.
_SELF_DETERMINED = (
    *(_KIND.IdentifierName, _KIND.IdentifierSelectName, _KIND.ScopedName),
    *(_KIND.MemberAccessExpression, _KIND.ConcatenationExpression, _KIND.CastExpression),
    *(_KIND.IntegerVectorExpression, _KIND.UnbasedUnsizedLiteralExpression),
    *(_KIND.LogicalAndExpression, _KIND.LogicalOrExpression, _KIND.UnaryLogicalNotExpression),
    *(_KIND.EqualityExpression, _KIND.InequalityExpression),
    *(_KIND.LessThanExpression, _KIND.LessThanEqualExpression),
    *(_KIND.GreaterThanExpression, _KIND.GreaterThanEqualExpression),
    *(_KIND.UnaryBitwiseAndExpression, _KIND.UnaryBitwiseOrExpression),
)


_ERROR = re.compile(r":\d+: error: ")


class UnplacedError(Exception):
    """A difference that no number can switch."""


class SourceTree:
    """Syntax tree of a source.

    Args:
        source: Text of the source, one character a byte.
        files: File list of the design; macros of all its headers are known, as in one compilation.
    """

    def __init__(self, source: str, files: FileList) -> None:
        self.source = source
        headers = {Path(name).name for name in files.headers(ROOT)}
        head = "".join(f'`include "{name}"\n' for name in sorted(headers))
        self._manager = pyslang.SourceManager()
        self._before = len(head)
        for folder in files.includes:
            self._manager.addUserDirectories(str(ROOT / folder))
        bag, options = pyslang.Bag(), parsing.PreprocessorOptions()
        options.predefines = [MACRO]
        bag.preprocessorOptions = options
        text = source.encode("latin-1").decode("ascii", "replace").replace("\ufffd", "?")
        self._tree = syntax.SyntaxTree.fromText(head + text, self._manager, "source", "", bag)
        self.root = self._tree.root
        self.legal = not any(one.isError() for one in self._tree.diagnostics)

    def span(self, node: Any) -> tuple[int, int]:
        """Return the first byte and the end of a node.

        Raises:
            UnplacedError: A macro or a header holds one of them.
        """
        found = node.range if isinstance(node, parsing.Token) else node.sourceRange
        start, end = found.start, found.end
        for place in (start, end):
            if self._manager.isMacroLoc(place) or place.buffer != self._end.buffer:
                raise UnplacedError
        return start.offset - self._before, end.offset - self._before

    @property
    def _end(self) -> Any:
        return self.root.sourceRange.end

    def text(self, node: Any) -> str:
        """Return the text of a node, macros as they are written."""
        start, end = self.span(node)
        return self.source[start:end]

    def words(self) -> list[str]:
        """Return all tokens, without comments and white space."""
        return _words(self.root)


@dataclass
class Placed:
    """Mutants of a list as changes of the sources, all by number from 1.

    Attributes:
        mutants: The mutants; their ids hold a hash of their edits.
        edits: The edits.
        alone: Numbers of the mutants that cannot be switched and need separate builds.
        illegal: Error of slang for each mutant that is no legal SystemVerilog.
    """

    mutants: dict[int, SourceMutant]
    edits: dict[int, tuple[Edit, ...]]
    alone: set[int]
    illegal: dict[int, str]


def place(
    listed: Sequence[ListedMutant], sources: dict[str, str], files: FileList, top: str
) -> Placed:
    """Find out which mutants of a list one build can hold.

    Args:
        listed: Mutants, each edit of which matches once.
        sources: Text of each source of the design, one character a byte; the sources that are
            edited without being part of it are added.
        files: File list of the design.
        top: Its top module.
    """
    trees: dict[str, SourceTree] = {}
    found = Placed({}, {}, set(), {})
    for number, one in enumerate(listed, 1):
        names = {edit.file: read_source(ROOT / edit.file, edit.file) for edit in one.edits}
        for name, text in names.items():
            sources.setdefault(name, _bytes(text))
        texts = {n: _bytes(text) for n, text in apply_edits(names, one.edits).items()}
        file, generated = one.edits[0].file, True
        parts: tuple[Part, ...] = ()
        if len(names) == 1 and file in files.sources:
            old = trees.setdefault(file, SourceTree(sources[file], files))
            parts, generated = _compared(old, SourceTree(texts[file], files), files)
        if not parts:
            found.alone.add(number)
            parts = tuple(_textual(sources[file], e) for e in one.edits if e.file == file)
        start = parts[0].start
        found.mutants[number] = SourceMutant(
            id=f"{one.id}.edit.{hashlib.sha256(repr(one.edits).encode()).hexdigest()[:8]}",
            file=file,
            module=_module_at(sources[file], start),
            operator="edit",
            line=sources[file].count("\n", 0, start) + 1,
            parts=parts,
            extra=generated,
        )
        found.edits[number] = one.edits
    design = {name: sources[name] for name in files.sources}
    together = {n: one for n, one in found.mutants.items() if n not in found.alone}

    def fitting(some: Sequence[int], base: dict[int, SourceMutant]) -> dict[int, SourceMutant]:
        """Return `base` with those of some mutants that are legal together with it."""
        more = base | {n: together[n] for n in some}
        if not _errors(variant(more, design), files, top, shapes()):
            return more
        half = len(some) // 2
        return fitting(some[half:], fitting(some[:half], base)) if half else base

    found.alone |= together.keys() - fitting([*together], {}).keys()
    for number in found.alone:
        mutant = found.mutants[number]
        found.mutants[number] = replace(mutant, extra=True)
        changed = {mutant.file: mutant.mutated(sources[mutant.file])}
        errors = _errors(changed, files, top) if mutant.file in files.sources else []
        strict = [error for error in errors if not error.endswith("]")]  # `[-W..]`: some tools
        if strict:
            found.illegal[number] = strict[0]
    return found


def _errors(
    texts: dict[str, str], files: FileList, top: str, more: Sequence[Parameters] = ()
) -> list[str]:
    """Return the errors of slang in the design with other texts, and further parameters."""
    with TemporaryDirectory() as folder:
        for name, text in texts.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode("latin-1"))
        paths = [f"{folder if name in texts else ROOT}/{name}" for name in files.sources]
        design = replace(files, sources=tuple(paths))
        return [
            re.sub(rf"\S*{Path(folder).name}/", "", line)
            for shape in ((), *more)
            for line in slang.analyse(top, shape, design)
            if _ERROR.search(line)
        ]


def _bytes(text: str) -> str:
    return text.encode("utf-8").decode("latin-1")


def _textual(source: str, edit: Edit) -> Part:
    """Return an edit as the part that it replaces."""
    old = _bytes(edit.old)
    start = source.index(old)
    return Part(start, start + len(old), _bytes(edit.new))


def _compared(old: SourceTree, new: SourceTree, files: FileList) -> tuple[tuple[Part, ...], bool]:
    """Return the parts of `old` that change it to `new` and that a number can switch.

    No parts: a difference is outside statements, or `new` has syntax errors.

    Returns:
        The parts, and whether one is in a generate branch, which a design may not have.
    """
    if not new.legal:
        return (), True
    try:
        found = _Comparison(old, new)
    except UnplacedError:
        return (), True
    parts = tuple(sorted(found.parts))
    changed = SourceMutant("", "", "", "", 0, parts).mutated(old.source)
    same = SourceTree(changed, files).words() == new.words()
    return (parts if same else ()), found.generated


def _module_at(source: str, place: int) -> str:
    """Return the name of the module or package around a byte of a source; "" for none."""
    heads = re.findall(
        r"^[ \t]*(?:module|package)\s+(?:automatic\s+)?(\w+)", source[:place], re.MULTILINE
    )
    return heads[-1] if heads else ""


class _Comparison:
    """Comparison of two trees.

    Attributes:
        parts: The differences.
        generated: Whether one is in a generate branch.
    """

    def __init__(self, old: SourceTree, new: SourceTree) -> None:
        self._old, self._new = old, new
        self._added: list[Any] = []
        self.generated = False
        self.parts = self._differences(old.root, new.root)
        self._check_added()

    def _differences(self, old: Any, new: Any) -> list[Part]:
        if _words(old) == _words(new):
            return []
        if isinstance(old, parsing.Token) or old.kind != new.kind:
            return [self._switched(old, new)]
        if old.kind in _SCOPES:
            return self._members([*old], [*new])
        before, after = [*old], [*new]
        try:
            if len(before) != len(after):
                raise UnplacedError
            pairs = zip(before, after, strict=True)
            return [part for one, two in pairs for part in self._differences(one, two)]
        except UnplacedError:
            return [self._switched(old, new)]

    def _members(self, old: list[Any], new: list[Any]) -> list[Part]:
        """Compare the items of a module, package or generate block.

        Of items that differ, each old one is paired with the next new one that it can be switched
        with; the other new ones are additions.
        """
        before, after = ([" ".join(_words(one)) for one in items] for items in (old, new))
        parts: list[Part] = []
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        for tag, i, i_end, j, j_end in matcher.get_opcodes():
            if tag == "equal":
                continue
            left = new[j:j_end]
            for one in old[i:i_end]:
                found, partner = self._partner(one, left)
                at = left.index(partner)
                self._add(left[:at], one, parts)
                parts += found
                left = left[at + 1 :]
            self._add(left, old[i_end], parts)
        return parts

    def _add(self, items: Sequence[Any], before: Any, parts: list[Part]) -> None:
        """Add new items in front of an old one; that after the last is `endmodule` or the like."""
        if items:
            at = self._old.span(before)[0]
            parts.append(Part(at, at, "".join(f"{self._new.text(one)}\n" for one in items)))
            self._added += items

    def _partner(self, one: Any, left: Sequence[Any]) -> tuple[list[Part], Any]:
        for other in left:
            try:
                return self._differences(one, other), other
            except UnplacedError:
                continue
        raise UnplacedError

    def _switched(self, old: Any, new: Any) -> Part:
        """Return the part that switches two nodes as a whole."""
        if isinstance(old, parsing.Token) or isinstance(new, parsing.Token):
            raise UnplacedError
        where, text = self._old.span(old), self._new.text(new)
        both = (old, new)
        above = old.parent
        while above is not None:
            self.generated |= above.kind in (_KIND.IfGenerate, _KIND.CaseGenerate)
            above = above.parent
        if all(isinstance(one, syntax.StatementSyntax) for one in both):
            return Part(*where, text, True, self._values(old, new))
        if all(isinstance(one, syntax.ContinuousAssignSyntax) for one in both):
            values = self._values(old, new)
            if values:
                return Part(*where, text, True, values)
        elif all(one.kind == _KIND.NamedPortConnection for one in both):
            named = all(_words(one)[1] == _words(old)[1] for one in both)
            if named and all(map(_is_self_determined, both)):
                return Part(*where, text)
        elif all(isinstance(one, syntax.ExpressionSyntax) for one in both):
            conditions = all(_is_condition(one) for one in both)
            if conditions and all(map(_is_self_determined, both)):
                return Part(*where, text)
        raise UnplacedError

    def _values(self, old: Any, new: Any) -> tuple[str, ...]:
        """Return target, old and new value if both nodes assign to one target, else ()."""
        one, two = (self._assignment(node) for node in (old, new))
        if one is None or two is None or _words(one[0]) != _words(two[0]):
            return ()
        if old.kind == _KIND.ContinuousAssign or "'{" not in _words(old) + _words(new):
            return (self._old.text(one[0]), self._old.text(one[1]), self._new.text(two[1]))
        return ()

    @staticmethod
    def _assignment(node: Any) -> tuple[Any, Any] | None:
        found = [one for one in node if not isinstance(one, parsing.Token)]
        if len(found) != 1 or found[0].kind not in _ASSIGNMENTS:
            return None
        target, *_, value = found[0]
        return target, value

    def _check_added(self) -> None:
        """Raise UnplacedError unless the additions declare new names, and drive these alone."""
        known = set(re.findall(r"\w+", self._old.source))
        fresh: set[str] = set()
        driven: set[str] = set()
        for item in self._added:
            nodes = [*_nodes(item)]
            declared = {_words(one)[0] for one in nodes if isinstance(one, syntax.DeclaratorSyntax)}
            if item.kind in _DECLARATIONS:
                fresh |= declared
            elif item.kind in _PROCESSES:
                calls = [one for one in nodes if isinstance(one, syntax.ExpressionStatementSyntax)]
                if any(self._assignment(one) is None for one in calls):
                    raise UnplacedError
                targets = [next(iter(n)) for n in nodes if getattr(n, "kind", 0) in _ASSIGNMENTS]
                driven |= {_words(one)[0] for one in targets} - declared
            else:
                raise UnplacedError
        if fresh & known or driven - fresh:
            raise UnplacedError


def _nodes(node: Any) -> Iterator[Any]:
    """Yield a node and all nodes and tokens below it."""
    yield node
    if not isinstance(node, parsing.Token):
        for one in node:
            yield from _nodes(one)


def _words(node: Any) -> list[str]:
    """Return the tokens of a node, without comments and white space."""
    return [one.rawText for one in _nodes(node) if isinstance(one, parsing.Token)]


def _is_condition(node: Any) -> bool:
    """Return whether an expression is the condition of an `if` statement."""
    above = node.parent
    if above.kind != _KIND.ConditionalPattern:
        return False
    return bool(above.parent.parent.kind == _KIND.ConditionalStatement)


def _is_self_determined(node: Any) -> bool:
    """Return whether an expression, or the input of a port connection, has no context."""
    while node.kind in _WRAPPED:
        inner = [one for one in node if not isinstance(one, parsing.Token)]
        if not inner:  # `.port`
            return True
        (node,) = inner
    return node.kind in _SELF_DETERMINED

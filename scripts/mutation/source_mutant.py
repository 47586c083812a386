# SPDX-License-Identifier: Apache-2.0
"""Mutant: a small change of a source, RTL or Python, with an id that survives other edits."""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

OPERATORS = {
    "arithmetic": "+ for -, - for +, + for *; the second operand left out",
    "logical": "&& for ||, || for &&; an operand left out; ! left out",
    "bitwise": "& for |, | for & and ^; an operand or ~ left out; another reduction",
    "relational": "== for !=, <= for <, and so on",
    "shift": "a shift to the other side",
    "constant": "a literal, a parameter or an enum member replaced by its neighbour",
    "condition": "if or ?: negated, always true, never true",
    "enable": "the same for an `if` without `else` in a clocked process",
    "index": "an index or the base of a slice one higher or lower",
    "slice": "a constant slice shifted by one bit, or without its top bit",
    "assignment": "an assignment left out, or two neighbours with their values swapped",
    "stuck": "a driven signal or an instance input stuck at 0 or 1",
    "reset": "a reset value changed, a reset assignment left out, no reset at all",
    "case": "bodies of two neighbouring case items swapped, a body left out",
    "ternary": "the arms of ?: swapped",
}


@dataclass(frozen=True, order=True)
class Part:
    """One replacement in a source: the bytes from `start` to `end` become `new`.

    `statement` marks a whole statement or `assign`. `values` are its target, the old and the new
    value if both assign to one target, else ().
    """

    start: int
    end: int
    new: str
    statement: bool = False
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class SourceMutant:
    """One change of one source file, generated from the syntax tree.

    Attributes:
        id: Unique name "FILE.OPERATOR.HASH", with the name of the file without its suffix.
        file: Source file.
        module: Module or package.
        operator: Kind of the change, for RTL a key of `OPERATORS`.
        line: First line, from 1.
        parts: The replacements.
        feeds: The module of an instance whose input is changed, "" elsewhere.
        extra: In a generate branch that the design with default parameters does not have.
    """

    id: str
    file: str
    module: str
    operator: str
    line: int
    parts: tuple[Part, ...]
    feeds: str = ""
    extra: bool = False

    def mutated(self, source: str) -> str:
        """Return the text of the source with this change alone."""
        for part in sorted(self.parts, reverse=True):
            source = source[: part.start] + part.new + source[part.end :]
        return source

    def diff(self, source: str) -> str:
        """Return the change as a unified diff of the source, without its header."""
        old, new = _lines(source), _lines(self.mutated(source))
        found = difflib.unified_diff(old, new, self.file, self.file, lineterm="", n=1)
        return "\n".join(list(found)[2:])


def _lines(source: str) -> list[str]:
    """Return the lines of a text that holds the bytes of a UTF-8 file, one character each."""
    return source.encode("latin-1").decode("utf-8", errors="replace").splitlines()


def numbered(
    found: Iterable[SourceMutant], sources: dict[str, str], end: str = ";"
) -> list[SourceMutant]:
    """Return the mutants sorted by place, with ids: file, operator, hash of statement and change.

    Equal ids get a number in the order of the file. An edit elsewhere in the file changes no id.
    A statement ends with `end`.
    """
    seen: Counter[str] = Counter()
    out = []
    for mutant in sorted(found, key=lambda m: (m.file, m.parts)):
        source = sources[mutant.file]
        said = "\0".join(
            f"{around(source, p, end)}\0{source[p.start : p.end]}\0{p.new}" for p in mutant.parts
        )
        stem = mutant.file.rpartition("/")[2].partition(".")[0]
        digest = hashlib.sha256(f"{mutant.file}\0{mutant.module}\0{said}".encode()).hexdigest()[:8]
        id = f"{stem}.{mutant.operator}.{digest}"
        seen[id] += 1
        out.append(replace(mutant, id=id if seen[id] == 1 else f"{id}.{seen[id]}"))
    return out


def around(source: str, part: Part, stop: str = ";") -> str:
    """Return the statement around a part without the part itself, roughly, as text for a hash.

    It reaches from the previous to the next `stop`, without white space.
    """
    first = source.rfind(stop, 0, part.start) + 1
    last = source.find(stop, part.end)
    before, after = source[first : part.start], source[part.end : last]
    return f"{''.join(before.split())}|{''.join(after.split())}"


def sample(mutants: Iterable[SourceMutant], count: int, seed: int) -> list[SourceMutant]:
    """Return a uniform random sample without repetition: the `count` first by hash of seed and id.

    A mutant that appears or disappears with an edit changes one place of the sample, so earlier
    results stay valid.
    """

    def place(mutant: SourceMutant) -> str:
        return hashlib.sha256(f"{seed}:{mutant.id}".encode()).hexdigest()

    return sorted(mutants, key=place)[:count]

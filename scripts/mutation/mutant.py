# SPDX-License-Identifier: Apache-2.0
"""A mutant of the RTL: a small change of the source text, with an id that outlives other edits."""

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
    """The text from byte `start` to `end` of a source becomes `new`; `statement`: a whole one."""

    start: int
    end: int
    new: str
    statement: bool = False


@dataclass(frozen=True)
class Mutant:
    """One change of one source file. `line` is where it begins, `end_line` where it ends (1..);
    `feeds`: the module of an instance whose input it changes, "" elsewhere; `extra`: it lies in a
    branch of a generate that a design with its parameters as in the source has not got."""

    id: str
    file: str
    module: str
    operator: str
    line: int
    end_line: int
    parts: tuple[Part, ...]
    feeds: str = ""
    extra: bool = False

    def mutated(self, source: str) -> str:
        """The whole source with this change alone."""
        for part in sorted(self.parts, reverse=True):
            source = source[: part.start] + part.new + source[part.end :]
        return source

    def diff(self, source: str) -> str:
        """The change as a unified diff of the source, without its header."""
        old, new = _lines(source), _lines(self.mutated(source))
        found = difflib.unified_diff(old, new, self.file, self.file, lineterm="", n=1)
        return "\n".join(list(found)[2:])


def _lines(source: str) -> list[str]:
    """Lines of a text that holds the bytes of a UTF-8 file, one character each."""
    return source.encode("latin-1").decode("utf-8", errors="replace").splitlines()


def numbered(found: Iterable[Mutant], sources: dict[str, str]) -> list[Mutant]:
    """Mutants with their ids: module, operator, hash of the changed statement and of the change; of
    equal ones the number in the file. An edit elsewhere in the file changes none of them."""
    seen: Counter[str] = Counter()
    out = []
    for mutant in sorted(found, key=lambda m: (m.file, m.parts)):
        source = sources[mutant.file]
        said = "\0".join(
            f"{around(source, p)}\0{source[p.start : p.end]}\0{p.new}" for p in mutant.parts
        )
        stem = mutant.file.rpartition("/")[2].partition(".")[0]
        digest = hashlib.sha256(f"{mutant.file}\0{mutant.module}\0{said}".encode()).hexdigest()[:8]
        id = f"{stem}.{mutant.operator}.{digest}"
        seen[id] += 1
        out.append(replace(mutant, id=id if seen[id] == 1 else f"{id}.{seen[id]}"))
    return out


def around(source: str, part: Part) -> str:
    """The statement about a part, roughly: back and forth to a semicolon, without white space."""
    first = source.rfind(";", 0, part.start) + 1
    last = source.find(";", part.end)
    before, behind = source[first : part.start], source[part.end : last]
    return f"{''.join(before.split())}|{''.join(behind.split())}"


def sample(mutants: Iterable[Mutant], count: int, seed: int) -> list[Mutant]:
    """A uniform sample without repetition: the `count` first by the hash of seed and id. A mutant
    that comes or goes with an edit changes one place of it, so results of before stay of use."""

    def place(mutant: Mutant) -> str:
        return hashlib.sha256(f"{seed}:{mutant.id}".encode()).hexdigest()

    return sorted(mutants, key=place)[:count]

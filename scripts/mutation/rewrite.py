# SPDX-License-Identifier: Apache-2.0
"""Rewriting of sources: many mutants in one source, of which a global number chooses one at time 0.

An expression becomes `(nf_mutant == 7 ? new : old)`, a statement `if (nf_mutant == 7) new else
old`. Number 0 is the original design; -1 is the same, and records which mutants would have made
a difference at their place (`probe.cpp`). The number comes from the plusarg `+nf_mutant=N`, or
from the environment variable NF_MUTANT, because a fork of a waiting simulator shares its command
line.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from scripts.common.paths import VARIANTS
from scripts.mutation.mutant import SourceMutant

VARIABLE, SEEN = "NF_MUTANT", "NF_MUTANT_SEEN"  # as probe.cpp reads them
PROBE = -1  # the number that chooses none, and notes which mutants would have made a difference
PACKAGE = """package nf_mutation_pkg;
  import "DPI-C" function int nf_mutation_number();
  import "DPI-C" function bit nf_mutation_note(input int number, input bit differs);
  function automatic int nf_chosen();
    int number;
    if ($value$plusargs("nf_mutant=%d", number) == 0) number = nf_mutation_number();
    return number;
  endfunction
  int nf_mutant = nf_chosen();
  function automatic logic nf_note(input int number, input logic differs);
    return nf_mutation_note(number, differs);
  endfunction
endpackage
"""
_NUMBER, _NOTE = "nf_mutation_pkg::nf_mutant", "nf_mutation_pkg::nf_note"

# Verilator keeps such a function apart, where it cannot see the number.
_APART = "/* verilator no_inline_task */"
_PROBE_CPP = Path(__file__).with_name("probe.cpp")

Sites = dict[tuple[int, int, bool], list[tuple[int, str]]]


def rewritten(source: str, mutants: Mapping[int, SourceMutant]) -> str:
    """Return a source with these mutants in it, by number."""
    sites: Sites = defaultdict(list)
    for number, mutant in mutants.items():
        for part in mutant.parts:
            sites[part.start, part.end, part.statement].append((number, part.new))
    # Outer before inner; of a statement and an expression in one place the statement.
    order = sorted(sites, key=lambda site: (site[0], -site[1], not site[2]))
    return _Writer(source, sites, order).text(0, len(source))


def write(mutants: Mapping[int, SourceMutant], sources: Mapping[str, str]) -> str:
    """Write every changed source below `paths.VARIANTS`, and return the folder's name for
    `BuildSpec.variant`.

    The name is a hash of the content. The number is declared before the first of `sources`, with
    which every file list of the design must begin.
    """
    carrier = next(iter(sources))
    by_file: dict[str, dict[int, SourceMutant]] = defaultdict(dict)
    for number, mutant in mutants.items():
        by_file[mutant.file][number] = mutant
    texts = {
        file: rewritten(source, by_file[file]).replace(_APART, "")
        for file, source in sources.items()
        if file in by_file or file == carrier
    }
    texts[carrier] = PACKAGE + texts[carrier]
    digest = hashlib.sha256(_PROBE_CPP.read_bytes())
    for file, text in sorted(texts.items()):
        digest.update(f"\0{file}\0{text}".encode("latin-1"))
    name = digest.hexdigest()[:16]
    for file, text in {**texts, _PROBE_CPP.name: _PROBE_CPP.read_text("latin-1")}.items():
        path = VARIANTS / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    return name


class _Writer:
    """Writes nested sites, from the outermost inwards."""

    def __init__(self, source: str, sites: Sites, order: list[tuple[int, int, bool]]) -> None:
        self._source, self._sites, self._order, self._next = source, sites, order, 0

    def text(self, start: int, end: int) -> str:
        """Return the source from `start` to `end`, with the sites in it from the next one on."""
        out, at = [], start
        while self._next < len(self._order) and self._order[self._next][1] <= end:
            site = self._order[self._next]
            self._next += 1
            out.append(self._source[at : site[0]])
            out.append(self._site(site, self.text(site[0], site[1])))
            at = site[1]
        out.append(self._source[at:end])
        return "".join(out)

    def _site(self, site: tuple[int, int, bool], old: str) -> str:
        choices = self._sites[site]
        if site[2]:
            chosen = (f"if ({_chosen(n, '1')}) begin {new} end else " for n, new in choices)
            return f"begin {''.join(chosen)}begin {old} end end"
        plain = self._source[site[0] : site[1]]
        chosen = (f"{_chosen(n, f'({new}) != ({plain})')} ? ({new}) : " for n, new in choices)
        return f"({''.join(chosen)}({old}))"


def _chosen(number: int, differs: str) -> str:
    """Return the condition that a mutant is active; its second half records, and is never true."""
    noted = f"({_NUMBER} < 0 && {_NOTE}({number}, {differs}))"
    return f"({_NUMBER} == {number} || {noted})"

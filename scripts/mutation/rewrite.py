# SPDX-License-Identifier: Apache-2.0
"""Puts many mutants into one source; a global number, read once at time 0, chooses one of them.

An expression becomes `(nf_mutant == 7 ? new : old)`, a statement `if (nf_mutant == 7) new else old`.
Number 0 is the design as it was. The number comes from the plusarg `+nf_mutant=N`, or, as a fork of
a waiting simulator shares its command line, from the environment variable NF_MUTANT.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping

from scripts.common.paths import VARIANTS
from scripts.mutation.mutant import Mutant

VARIABLE = "NF_MUTANT"
CARRIER = (
    "hdl/pkg/nf_pkg.sv"  # the first source of every file list: the number is declared before it
)
# $c is Verilator's; yosys reads the number as a macro, so that a proof sees one mutant alone.
PACKAGE = f"""package nf_mutation_pkg;
`ifdef SYNTHESIS
  localparam int nf_mutant = `{VARIABLE};
`else
  function automatic int chosen();
    int number;
    if ($value$plusargs("nf_mutant=%d", number) == 0)
      number = $c32("(std::getenv(\\"{VARIABLE}\\") ? std::atoi(std::getenv(\\"{VARIABLE}\\")) : 0)");
    return number;
  endfunction
  int nf_mutant = chosen();
`endif
endpackage
"""
_NUMBER = "nf_mutation_pkg::nf_mutant"

Sites = dict[tuple[int, int, bool], list[tuple[int, str]]]


def rewritten(source: str, mutants: Mapping[int, Mutant]) -> str:
    """A source with these mutants in it, by number."""
    sites: Sites = defaultdict(list)
    for number, mutant in mutants.items():
        for part in mutant.parts:
            sites[part.start, part.end, part.statement].append((number, part.new))
    # Outer before inner; of a statement and an expression in one place the statement.
    order = sorted(sites, key=lambda site: (site[0], -site[1], not site[2]))
    return _Writer(source, sites, order).text(0, len(source))


def write(mutants: Mapping[int, Mutant], sources: Mapping[str, str]) -> str:
    """Write every source that changes below `paths.VARIANTS`; the name of the folder, made of its
    content, for `BuildSpec.variant`."""
    by_file: dict[str, dict[int, Mutant]] = defaultdict(dict)
    for number, mutant in mutants.items():
        by_file[mutant.file][number] = mutant
    texts = {
        file: rewritten(source, by_file[file])
        for file, source in sources.items()
        if file in by_file or file == CARRIER
    }
    texts[CARRIER] = PACKAGE + texts[CARRIER]
    digest = hashlib.sha256()
    for file, text in sorted(texts.items()):
        digest.update(f"\0{file}\0{text}".encode("latin-1"))
    name = digest.hexdigest()[:16]
    for file, text in texts.items():
        path = VARIANTS / name / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("latin-1"))
    return name


class _Writer:
    """Writes nested sites, from the outermost inwards."""

    def __init__(self, source: str, sites: Sites, order: list[tuple[int, int, bool]]) -> None:
        self._source, self._sites, self._order, self._next = source, sites, order, 0

    def text(self, start: int, end: int) -> str:
        """The source from `start` to `end`, with the sites that lie in it from the next one on."""
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
            head = "".join(f"if ({_NUMBER} == {n}) begin {new} end else " for n, new in choices)
            return f"begin {head}begin {old} end end"
        head = "".join(f"({_NUMBER} == {n}) ? ({new}) : " for n, new in choices)
        return f"({head}({old}))"

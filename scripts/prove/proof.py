# SPDX-License-Identifier: Apache-2.0
"""Proofs of the RTL as listed in `hdl/formal/proofs.yaml`, and the mutants that must break them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Annotated

from neuron_fabric.typed import FieldRule, typed
from scripts.build import sources, twins
from scripts.build.filelist import read_filelist
from scripts.common.data import Id, Listed, Positive, Why, like, load_list, with_edits
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.common.records import SOLVER, BuildSpec, Dut, Edit, RunSpec
from scripts.plan import listed_mutants

FOLDER = ROOT / "hdl" / "formal"
FILELIST = "hdl/formal/nf_formal.f"
DEFINES = (("SYNTHESIS", "1"), ("FORMAL", "1"))
_Clocks = Annotated[int, FieldRule(lambda clocks: clocks > 0, "1 or more")]
BITWUZLA = "bitwuzla"


class Method(StrEnum):
    """Method of a proof; the comments say for which clocks or inputs it holds."""

    INDUCTION = "induction"  # of every clock: k clocks from reset, and k clocks imply the next one
    BMC = "bmc"  # of the first k clocks from reset, for every input
    ONCE = "once"  # of one clock: the module has no state
    LINEAR = "linear"  # of every flit: the module is a matrix over GF(2)
    FLOAT = "float"  # of every operand: against the floating point of SMT-LIB


@dataclass(frozen=True)
class Proof:
    """Properties (assertions) of one wrapper module that are proved together.

    Attributes:
        id: Name, with a set of parameters after a slash if there are several.
        top: Wrapper module.
        why: Purpose.
        method: Method of proof.
        cover: Clocks within which every cover statement must be reached.
        parameters: Parameters of the wrapper.
        depth: k, in clocks.
        edits: Edits that shrink the design for this proof.
        quick: Whether it belongs to the quick selection.
        timeout: Budget in seconds of processor time.
        dut: BOTH if the wrapper contains a module and its MyHDL twin.
        solver: `yices`, or `bitwuzla` if that takes too long.
    """

    id: Annotated[str, like(r"^[a-z][a-z0-9_]*(/.*)?$")]
    top: Annotated[str, like(r"^fv_\w+$")]
    why: Why
    method: Method
    cover: _Clocks
    parameters: tuple[tuple[str, int], ...]
    depth: _Clocks = 1
    edits: tuple[Edit, ...] = ()
    quick: bool = True
    timeout: Positive = 600.0
    dut: Dut = Dut.RTL
    solver: Annotated[str, like("^(yices|bitwuzla)$")] = "yices"

    @property
    def name(self) -> str:
        """Name without the set of parameters."""
        return self.id.partition("/")[0]

    @property
    def how(self) -> str:
        """Method, and depth of a bounded one, as text."""
        bounded = self.method in (Method.INDUCTION, Method.BMC)
        return f"{self.method}, k = {self.depth}" if bounded else str(self.method)

    @property
    def spec(self) -> RunSpec:
        """The proof in the form of a run, for records and the history."""
        name, _, sort = self.id.partition("/")
        build = BuildSpec(
            SOLVER,
            self.top,
            FILELIST,
            parameters=self.parameters,
            defines=DEFINES,
            edits=self.edits,
            dut=self.dut,
        )
        return RunSpec(
            build,
            f"proof.{name}",
            (sort or str(self.method),),
            timeout_s=self.timeout,
            rerun=f".venv/bin/nf prove {self.id}",
        )


@dataclass(frozen=True)
class Broken:
    """Mutant for a proof: edits of the RTL for which the proof must find a counterexample.

    ``of`` names a mutant of `verif/mutants`, which simulation catches, too; "" if the edits are
    given here.
    """

    proof: str
    id: Id = ""
    why: Why = ""
    edits: tuple[Edit, ...] = ()
    of: str = ""


def read() -> list[Proof]:
    """Read all proofs of `proofs.yaml` in order; one with sets of parameters gives one for each."""
    return load_list(FOLDER / "proofs.yaml", "proofs", Proof, _of_each_set, least=1)


def _of_each_set(value: Listed) -> Iterable[Listed]:
    sets = value.pop("sets", None) or {"": value.get("parameters", {})}
    name, quick = value.pop("name", ""), value.get("quick", True)
    for own, parameters in typed(dict[str, dict[str, int]], sets, "sets").items():
        yield {
            "cover": value.get("depth", 1),
            **value,
            "id": f"{name}/{own}" if own else name,
            "parameters": sorted(parameters.items()),
            "quick": own in quick if isinstance(quick, list) else quick,
        }


def mutants() -> list[Broken]:
    """Read all mutants for proofs, with the edits of those that are taken from `verif/mutants`.

    Raises:
        NfError: `verif/mutants` has no mutant of that name.
    """
    simulated = {mutant.id: mutant for mutant in listed_mutants.read()}
    out: list[Broken] = []
    for one in load_list(FOLDER / "mutants.yaml", "mutants", Broken, with_edits, least=1):
        if {bool(one.id), bool(one.why), bool(one.edits)} != {not one.of}:
            what = "either 'of', or 'id', 'why' and edits must be there"
            raise NfError(f"hdl/formal/mutants.yaml: a mutant of {one.proof}: {what}.")
        if one.of and one.of not in simulated:
            raise NfError(f"hdl/formal/mutants.yaml: verif/mutants has no {one.of}.")
        made = simulated.get(one.of, one)
        out.append(replace(one, id=made.id, why=made.why, edits=made.edits))
    return out


def chosen(proofs: Sequence[Proof], globs: Sequence[str]) -> list[Proof]:
    """Return the proofs whose id, or its part before the slash, matches any of the globs.

    Raises:
        NfError: There is none.
    """
    found = [
        proof
        for proof in proofs
        if any(fnmatchcase(name, glob) for name in (proof.id, proof.name) for glob in globs)
    ]
    if not found:
        raise NfError(f"no proof matches {' '.join(globs)!r} (`nf prove --list`).")
    return found


def broken(proof: Proof, mutant: Broken) -> Proof:
    """Return the proof applied to the design with a mutant.

    A proof by induction becomes a bounded search from reset, as deep as its covers.
    """
    edits = (*proof.edits, *mutant.edits)
    if proof.method is not Method.INDUCTION:
        return replace(proof, edits=edits)
    depth = max(proof.depth, proof.cover)
    return replace(proof, edits=edits, method=Method.BMC, depth=depth)


def problems() -> list[str]:
    """Return error lines on the lists of proofs and mutants.

    Errors are duplicate names, edits that do not apply, and proofs without mutants.
    """
    proofs, found = read(), mutants()
    out: list[str] = []
    for what, names in (("proof", [p.id for p in proofs]), ("mutant", [m.id for m in found])):
        twice = sorted(name for name, count in Counter(names).items() if count > 1)
        out += [f"{what} {name} is listed twice" for name in twice]
    by_id = {proof.id: proof for proof in proofs}
    files = read_filelist(ROOT, FILELIST)
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in files.sources}
    texts |= twins.sources(ROOT)
    for mutant in found:
        if mutant.proof not in by_id:
            out.append(f"mutant {mutant.id}: no proof {mutant.proof}")
            continue
        try:
            sources.apply_edits(texts, broken(by_id[mutant.proof], mutant).edits)
        except NfError as error:
            out.append(f"mutant {mutant.id}: {error}")
    hit = {mutant.proof.partition("/")[0] for mutant in found}
    unhit = dict.fromkeys(proof.name for proof in proofs if proof.name not in hit)
    return out + [f"proof {name}: no mutant shows that it can fail" for name in unhit]

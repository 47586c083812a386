# SPDX-License-Identifier: Apache-2.0
"""Runs of mutants against tests: each mutant meets the tests that see it, until one fails.

Tests with the most expected kills a second come first.

One build of each parameter set holds all mutants of the command. First every test runs once with no
mutant active (`PROBE`) and records which mutants would have made a difference at their place: a
test that sees no difference there cannot kill. This is sharper than line coverage, needs no build
with coverage, and shows that the tests pass on the build.

Rewriting: an expression becomes `(nf_mutant == 7 ? new : old)`, a statement `if (nf_mutant == 7)
new else old`, and `assign x = old;` the same in an `always_comb`. Number 0 is the original design;
-1 is the same, and records which mutants would have made a difference at their place (`probe.cpp`).
The number is read once at time 0, from the plusarg `+nf_mutant=N` or from the variable NF_MUTANT,
because a fork of a waiting simulator shares its command line. A mutant by hand that no number can
switch (`edited_source.py`) has separate builds.
"""

from __future__ import annotations

import hashlib
import math
import re
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from pathlib import Path

from scripts.common import data
from scripts.common.errors import NfError
from scripts.common.paths import VARIANTS
from scripts.common.records import (
    SOLVER,
    Edit,
    FailureKind,
    RunRecord,
    RunSpec,
    Verdict,
    Waves,
)
from scripts.mutation.mutant_outcome import MutantOutcome, State, Store
from scripts.mutation.source_mutant import Part, SourceMutant
from scripts.plan.depends import Dependencies
from scripts.run.schedule import Runner, run_all

KILLS = (FailureKind.MISMATCH, FailureKind.ASSERTION, FailureKind.CRASH, FailureKind.TIME_OUT)
# A run that uses so many times its processor time without a mutant, and some seconds, hangs.
_SLOWER, _MORE_S = 8.0, 30.0
# Tests that a mutant outlives before its proof is tried, which takes about as long: most are dead
# by then.
_PROOF_AFTER_S = 15.0
_FEW = 10  # mutants whose runs take less than compiling with optimisation does
# How likely a test kills that is there to catch a change of the same line; 0.5: of which nothing is
# known.
_WATCHES = 0.6
UNKNOWN_S = 2.0

Prove = Callable[[SourceMutant], str]


@dataclass
class Candidate:
    """A test on one build that may kill mutants, and the result of its probe run.

    Attributes:
        spec: The run.
        modules: Modules of the design; empty for any.
        seconds: Processor time of a run.
        seen: Numbers of the mutants that would have made a difference at their place; None before
            the probe run.
        rank: Candidates of a lower rank run first.
    """

    spec: RunSpec
    modules: frozenset[str] = frozenset()
    seconds: float = UNKNOWN_S
    seen: frozenset[int] | None = None  # numbers of the mutants; None: not probed
    rank: int = 0

    @property
    def name(self) -> str:
        return f"{self.spec.name} {self.spec.build_name}"

    @property
    def proves(self) -> bool:
        """Return whether it is a formal proof, which no number reaches: it reads edited sources."""
        return self.spec.build.sim == SOLVER

    def holds(self, module: str) -> bool:
        """Return whether a module is in its design; "" is in every one."""
        return not self.modules or not module or module in self.modules

    def sees(self, number: int, module: str) -> bool:
        """Return whether a mutant (its number and module) may make a difference in this run."""
        return self.holds(module) and (self.seen is None or number in self.seen)


@dataclass(frozen=True)
class Probed:
    """Result of a probe run in a file: processor time, and the numbers of the mutants it sees."""

    seconds: float
    seen: tuple[int, ...]


@dataclass
class MutantRuns:
    """Mutants by number, the tests that may kill them, and the runs of one against the other.

    `prove` returns the kind of proof of equivalence, "" when there is none; `without` names what
    was disabled on purpose. `broken`, `faults` and `open` collect faulty runs, their causes by
    number, and mutants without an outcome.
    """

    mutants: Mapping[int, SourceMutant]
    sources: Mapping[str, str]
    candidates: Sequence[Candidate]
    runner: Runner
    store: Store
    runs: Path
    prove: Prove = lambda mutant: ""
    waived: Mapping[str, str] = field(default_factory=dict)
    meant: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Number of listed mutants that each test must catch, by module and test."""
    watchers: Mapping[tuple[str, int], Collection[str]] = field(default_factory=dict)
    """Names of the tests that are there to catch one of a line, by file and line."""
    without: str = ""
    again: bool = False  # whether outcomes of earlier commands are forgotten
    effort: float = math.inf
    """Processor seconds of tests on a mutant, so that a busy machine does not spare mutants;
    beyond it, those that are meant alone."""
    deadline: float = math.inf  # of time.monotonic(); a mutant without outcome by then stays open
    edits: Mapping[int, tuple[Edit, ...]] = field(default_factory=dict)
    """Edits of mutants by hand, by number: for proofs, and for mutants in `alone`."""
    alone: Collection[int] = ()
    """Numbers of the mutants that no number can switch: each has separate builds."""
    first: Mapping[int, Collection[tuple[str, str]]] = field(default_factory=dict)
    """Tests to run first, by number, as id without values of parameters and build."""

    def __post_init__(self) -> None:
        opt = "-O0" if len(self.mutants) < _FEW else "-O1"
        switched = {n: one for n, one in self.mutants.items() if n not in self.alone}
        name = write_variant(switched, self.sources)
        self._depends = Dependencies()
        self._benches = {
            c.name: (self._depends.fingerprint if c.proves else self._depends.bench)(c.spec)
            for c in self.candidates
        }
        for candidate in (c for c in self.candidates if not c.proves):
            build = replace(candidate.spec.build, variant=name, opt=opt)
            candidate.spec = replace(candidate.spec, build=build)
        self._lock = threading.Lock()
        self.faults: dict[int, str] = {}  # causes of `broken`, by number
        self.broken: list[str] = []  # runs that say nothing about a mutant
        self.open: list[str] = []  # mutants for which there was no time

    # ---- what is known already

    def key(self, mutant: SourceMutant, test: str = "") -> str:
        """Return a hash of all that the outcome of a mutant depends on.

        `test` is the test that killed it (`test build`), "" for all tests.
        """
        effort = "" if test else str(self.effort)
        digest = hashlib.sha256(f"{mutant.id}\0{self.without}\0{effort}".encode())
        for file in sorted({mutant.file, *(f for f in self.sources if f.endswith("_pkg.sv"))}):
            digest.update(self.sources[file].encode("latin-1"))
        for name in [test] if test else sorted(self._benches):
            digest.update(f"\0{name}\0{self._benches.get(name, '')}".encode())
        return digest.hexdigest()[:16]

    def known(self, mutant: SourceMutant) -> MutantOutcome | None:
        """Return the outcome of a mutant from an earlier command if it still holds, else None."""
        old = None if self.again else self.store.get(mutant.id)
        if old is None or old.state is State.WAIVED:
            return None
        test = f"{old.test} {old.build}" if old.state is State.KILLED else ""
        holds = self.key(mutant, test) == old.key
        return replace(old, line=mutant.line) if holds else None

    # ---- running

    def probe(self, jobs: int, end: Callable[[], None]) -> bool:
        """Run every test once without a mutant, unless an earlier command did on this build.

        Args:
            jobs: Parallel runs.
            end: Ends all runs in progress.

        Returns:
            False when it was interrupted.

        Raises:
            NfError: A test fails.
        """
        by_id = {}
        specs = []
        for candidate in self.candidates:
            if candidate.proves or (not self.again and self._probed(candidate)):
                continue
            spec = self._spec(candidate, PROBE)
            by_id[spec.id] = candidate
            specs.append(spec)

        def came(record: RunRecord) -> None:
            candidate = by_id[record.id]
            path = self.runs / record.id / "seen"
            noted = path.read_bytes() if path.is_file() else b""
            candidate.seen = frozenset(n for n in self.mutants if noted[n : n + 1] == b"\1")
            candidate.seconds = max(record.used_seconds, 0.05)
            shutil.rmtree(self.runs / record.id, ignore_errors=True)
            if not record.passed:
                self.broken.append(
                    f"{candidate.name} without a mutant: {record.kind} {record.cause}"
                )
                return
            found = Probed(candidate.seconds, tuple(sorted(candidate.seen)))
            data.keep(self._seen_path(candidate), found)

        records = run_all(specs, jobs, came, self.runner, fail_fast=True, end=end)
        if self.broken:
            raise NfError(
                f"the tests must be green without a mutant: {'; '.join(self.broken[:3])}."
            )
        return len(records) == len(specs)

    def _seen_path(self, candidate: Candidate) -> Path:
        build = candidate.spec.build
        words = (candidate.name, build.variant, *map(str, build.parameters), self.without)
        words = (*words, self._benches[candidate.name], *self.sources.values())
        words = (*words, str(candidate.spec.env))
        digest = hashlib.sha256("\0".join(words).encode())
        return self.store.folder / "seen" / f"{digest.hexdigest()[:16]}.json"

    def _probed(self, candidate: Candidate) -> bool:
        found = data.kept(self._seen_path(candidate), Probed)
        if found is not None:
            candidate.seconds, candidate.seen = found.seconds, frozenset(found.seen)
        return found is not None

    def run(
        self, jobs: int, came: Callable[[MutantOutcome], None], end: Callable[[], None]
    ) -> bool:
        """Find the outcome of every mutant.

        Args:
            jobs: Parallel mutants.
            came: Called with each outcome, also with those known from earlier commands.
            end: Ends all runs in progress.

        Returns:
            False when it was interrupted.
        """
        todo: dict[str, int] = {}
        specs = []
        for number, mutant in self.mutants.items():
            old = self.known(mutant)
            if old is not None:
                came(self._judged(old))
                continue
            spec = replace(self._spec(self.candidates[0], number), build_name=f"m{number}")
            todo[spec.id] = number
            specs.append(spec)
        outcomes: dict[str, MutantOutcome] = {}

        def chase(spec: RunSpec) -> RunRecord:
            outcome, record = self._chase(todo[spec.id])
            outcomes[spec.id] = outcome
            return replace(record, id=spec.id)

        def done(record: RunRecord) -> None:
            outcome = outcomes.get(record.id)
            if outcome is None:  # a fault of the runner: said, never a kill
                self.faults[todo[record.id]] = record.cause
                self.broken.append(f"{record.name}: {record.cause}")
                return
            self.store.add(outcome)
            came(self._judged(outcome))

        records = run_all(specs, jobs, done, chase, end=end)
        return len(records) + len(self.open) == len(specs)

    def _judged(self, outcome: MutantOutcome) -> MutantOutcome:
        text = self.waived.get(outcome.id)
        alive = outcome.state in (State.SURVIVED, State.UNSEEN)
        return replace(outcome, state=State.WAIVED, note=text) if alive and text else outcome

    def _chase(self, number: int) -> tuple[MutantOutcome, RunRecord]:
        """Run tests on a mutant until one fails, it is proved equivalent, or no test is left.

        Returns:
            Its outcome, and the record of the last run.
        """
        mutant = self.mutants[number]
        known = (mutant.id, mutant.file, mutant.module, mutant.operator, mutant.line)
        diff = mutant.diff(self.sources[mutant.file])
        ran: list[str] = []
        seconds, proof, tried = 0.0, "", False
        # No test sees it.
        record = RunRecord.of(self._spec(self.candidates[0], number), Verdict(True))
        ranked = self._ranked(number)
        for candidate in ranked:
            late = bool(ran) and seconds + candidate.seconds > self.effort
            if late and not self._meant(mutant, candidate):
                continue
            if seconds > _PROOF_AFTER_S and not tried:
                proof, tried = self.prove(mutant), True
                if proof:
                    break
            if time.monotonic() > self.deadline:
                self.open.append(mutant.id)
                raise CancelledError
            record = self.runner(self._spec(candidate, number))
            shutil.rmtree(self.runs / record.id, ignore_errors=True)
            if record.kind is not None and record.kind not in KILLS:
                raise NfError(f"{mutant.id}: {candidate.name}: {record.kind} {record.cause}")
            ran.append(candidate.name)
            seconds += record.used_seconds
            if not record.passed:
                outcome = MutantOutcome(
                    *known,
                    diff,
                    State.KILLED,
                    self.key(mutant, candidate.name),
                    test=candidate.spec.name,
                    build=candidate.spec.build_name,
                    kind=str(record.kind),
                    cause=record.cause,
                    tests=tuple(ran),
                    seconds=round(seconds, 2),
                )
                return outcome, record
        if not tried:
            proof = self.prove(mutant)
        state = State.EQUIVALENT if proof else State.SURVIVED if ran else State.UNSEEN
        note = proof or f"{len(ran)} of {len(ranked)} tests that see it ran, {seconds:.0f} s"
        outcome = MutantOutcome(*known, diff, state, self.key(mutant), note=note)
        return replace(outcome, tests=tuple(ran), seconds=round(seconds, 2)), record

    def waves(self, id: str) -> tuple[str, ...]:
        """Return the waveform files of the first test that sees a mutant, without and with it.

        () if no test sees it. The design is built again with waves.
        """
        number = next(n for n, mutant in self.mutants.items() if mutant.id == id)
        for candidate in self._ranked(number):
            build = candidate.spec.build
            build = replace(build, waves=Waves.FST)
            shown = replace(candidate, spec=replace(candidate.spec, build=build))
            records = [self.runner(self._spec(shown, n)) for n in (0, number)]
            return tuple(record.waves for record in records if record.waves)
        return ()

    def _ranked(self, number: int) -> list[Candidate]:
        """Return the tests that see a mutant, the most expected kills a second first."""
        mutant = self.mutants[number]
        module, alone = mutant.module, number in self.alone
        watchers = self.watchers.get((mutant.file, mutant.line), ())
        first = self.first.get(number, ())

        def order(candidate: Candidate) -> tuple[int, bool, float]:
            spec = candidate.spec
            listed = (spec.name.partition("/")[0], spec.build_name.rpartition(":")[2]) in first
            return candidate.rank, not listed, -worth(candidate)

        def worth(candidate: Candidate) -> float:
            meant = self._meant(mutant, candidate)
            chance = self.store.chance(module, candidate.name, meant)
            if candidate.name in watchers:
                chance = max(chance, _WATCHES)
            return chance / candidate.seconds

        with self._lock:
            reached = (
                c
                for c in self.candidates
                if (c.holds(module) if alone or c.proves else c.sees(number, module))
            )
            return sorted(reached, key=order)

    def _meant(self, mutant: SourceMutant, candidate: Candidate) -> int:
        """Count the listed mutants that a test must catch in a mutant's module.

        Those in the module whose input the mutant changes count, too.
        """
        test = candidate.spec.name
        return sum(self.meant.get((name, test), 0) for name in {mutant.module, mutant.feeds})

    def _spec(self, candidate: Candidate, number: int) -> RunSpec:
        """Return the run of a test with a mutant; `number` 0 is none, PROBE the probe run."""
        spec = candidate.spec
        if candidate.proves or number in self.alone:
            edits = (*spec.build.edits, *self.edits[number])
            build = replace(spec.build, edits=edits, variant="")
            return replace(spec, build=build, build_name=f"{spec.build_name}-m{number}")
        environment = [*spec.env, (VARIABLE, str(number))]
        if number == PROBE:
            environment.append((SEEN, "seen"))  # in the folder of the run
        limit = spec.timeout_s
        if candidate.seen is not None:
            limit = min(limit, candidate.seconds * _SLOWER + _MORE_S)
        return replace(
            spec,
            env=tuple(environment),
            timeout_s=limit,
            build_name=f"{spec.build_name}-m{number}",
        )


VARIABLE, SEEN = "NF_MUTANT", "NF_MUTANT_SEEN"  # as probe.cpp reads them
PROBE = -1  # the number that chooses none, and notes which mutants would have made a difference
_PACKAGE = Path(__file__).with_name("nf_mutation_pkg.inc")
_NUMBER, _NOTE = "nf_mutation_pkg::nf_mutant", "nf_mutation_pkg::nf_note"

# Verilator keeps such a function apart, where it cannot see the number.
_APART = "/* verilator no_inline_task */"
_PROBE_CPP = Path(__file__).with_name("probe.cpp")

Sites = dict[tuple[int, int, bool], list[tuple[int, Part]]]


def rewritten(source: str, mutants: Mapping[int, SourceMutant]) -> str:
    """Return the text of a source that holds all these mutants, selected by number at run time."""
    sites: Sites = defaultdict(list)
    for number, mutant in mutants.items():
        for part in mutant.parts:
            sites[part.start, part.end, part.statement].append((number, part))
    # Additions first; outer before inner; of a statement and an expression in one place the
    # statement.
    order = sorted(sites, key=lambda site: (site[0], site[0] < site[1], -site[1], not site[2]))
    return _Writer(source, sites, order).text(0, len(source))


def variant(mutants: Mapping[int, SourceMutant], sources: Mapping[str, str]) -> dict[str, str]:
    """Return the text of every source with mutants, and of the first, which declares the number."""
    carrier = next(iter(sources))
    by_file: dict[str, dict[int, SourceMutant]] = defaultdict(dict)
    for number, mutant in mutants.items():
        by_file[mutant.file][number] = mutant
    texts = {
        file: rewritten(source, by_file[file]).replace(_APART, "")
        for file, source in sources.items()
        if file in by_file or file == carrier
    }
    texts[carrier] = _PACKAGE.read_text("latin-1") + texts[carrier]
    return texts


def write_variant(mutants: Mapping[int, SourceMutant], sources: Mapping[str, str]) -> str:
    """Write every source with mutants below `paths.VARIANTS`.

    The number is declared before the first of `sources`, with which every file list of the design
    must begin.

    Returns:
        The name of the folder, a hash of its content, for `BuildSpec.variant`.
    """
    texts = variant(mutants, sources)
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
    """Writer of a source with nested changes, from the outermost inwards."""

    def __init__(self, source: str, sites: Sites, order: list[tuple[int, int, bool]]) -> None:
        self._source, self._sites, self._order, self._next = source, sites, order, 0

    def text(self, start: int, end: int) -> str:
        """Return the source from `start` to `end` with all changes in it, from the next one on."""
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
        if site[0] == site[1]:
            return "".join(part.new for _, part in choices)
        if site[2]:
            return _switched_statement(choices, old)
        plain = self._source[site[0] : site[1]]
        port = _PORT.fullmatch(plain)
        if port is None:
            return _switched(choices, plain, old)
        inputs = [(n, replace(part, new=_input(part.new))) for n, part in choices]
        return f".{port[1]} ({_switched(inputs, _input(plain), _input(plain))})"


_PORT = re.compile(r"\.(\w+)\s*(?:\((.*)\))?", re.DOTALL)  # a connection of an instance


def _input(connection: str) -> str:
    """Return the expression of a port connection; `.name` stands for `.name (name)`."""
    port = _PORT.fullmatch(connection)
    assert port is not None
    return str(port[2] or port[1])


def _switched(choices: Sequence[tuple[int, Part]], plain: str, old: str) -> str:
    """Return an expression that chooses between `old` and new ones; `plain` is the original."""
    chosen = (
        f"{_chosen(n, f'({part.new}) != ({plain})')} ? ({part.new}) : " for n, part in choices
    )
    return f"({''.join(chosen)}({old}))"


def _switched_statement(choices: Sequence[tuple[int, Part]], old: str) -> str:
    """Return a statement, or the process of an `assign`, that chooses between `old` and new ones.

    Values for one target are compared in its width.
    """
    notes, chosen = "", ""
    for number, part in choices:
        active = _chosen(number, "1")
        if part.values:
            target, *values = part.values
            active = f"({_NUMBER} == {number})"
            one, two = (f"automatic logic [$bits({target})-1:0] nf_{at} = " for at in "01")
            notes += (
                f"if ({_NUMBER} < 0) begin {one}{values[0]}; {two}{values[1]}; "
                f"void'({_NOTE}({number}, nf_0 != nf_1)); end "
            )
        chosen += f"if {active} begin {part.new.removeprefix(_ASSIGN)} end else "
    head = "always_comb " if old.startswith(_ASSIGN) else ""
    return f"{head}begin {notes}{chosen}begin {old.removeprefix(_ASSIGN)} end end"


_ASSIGN = "assign "


def _chosen(number: int, differs: str) -> str:
    """Return the SystemVerilog condition that a mutant is active.

    Its second half calls the probe function that records whether `differs` is true; its value is
    always false.
    """
    noted = f"({_NUMBER} < 0 && {_NOTE}({number}, {differs}))"
    return f"({_NUMBER} == {number} || {noted})"

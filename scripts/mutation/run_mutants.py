# SPDX-License-Identifier: Apache-2.0
"""Runs of mutants against tests: each mutant meets the tests that see it, the most kills a second
first, until one is red.

One build of each parameter set holds all mutants of the command. First every test runs once with
no mutant active (`rewrite.PROBE`) and records which mutants would have made a difference at
their place: a test that sees no difference there cannot kill. This is sharper than line
coverage, needs no build with coverage, and shows that the tests are green on the build.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass, field, replace
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import DataError, as_object, parse_json, read_text
from scripts.build import registry
from scripts.common.errors import NfError
from scripts.common.records import FailureKind, RunRecord, RunSpec, Verdict
from scripts.farm.schedule import Runner, run_all
from scripts.mutation import rewrite
from scripts.mutation.mutant import SourceMutant
from scripts.mutation.mutant_outcome import MutantOutcome, State, Store
from scripts.plan.depends import Dependencies

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
    """A test on a build with these modules (none named: any), and the result of its probe.

    `name` is `test build`, `seconds` the processor time of a run.
    """

    spec: RunSpec
    modules: frozenset[str] = frozenset()
    seconds: float = UNKNOWN_S
    seen: frozenset[int] | None = None  # numbers of the mutants; None: not probed

    @property
    def name(self) -> str:
        return f"{self.spec.name} {self.spec.build_name}"

    def sees(self, number: int, module: str) -> bool:
        """Return whether a mutant may make a difference in this run."""
        if self.modules and module not in self.modules:
            return False
        return self.seen is None or number in self.seen


@dataclass
class MutantRuns:
    """Mutants by number, and the tests that have to kill them.

    `prove` returns the kind of proof of equivalence, "" when there is none; `without` names what
    was disabled on purpose.
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
    """How many mutants written by hand each test is there to catch, by module and test."""
    watchers: Mapping[tuple[str, int], Collection[str]] = field(default_factory=dict)
    """Names of the tests that are there to catch one of a line, by file and line."""
    without: str = ""
    again: bool = False  # whether outcomes of earlier commands are forgotten
    effort: float = math.inf
    """Processor seconds of tests on a mutant, so that a busy machine does not spare mutants;
    beyond it, those that are meant alone."""
    deadline: float = math.inf  # of time.monotonic(); a mutant without outcome by then stays open

    def __post_init__(self) -> None:
        opt = "-O0" if len(self.mutants) < _FEW else "-O1"
        variant = rewrite.write(self.mutants, self.sources)
        for candidate in self.candidates:
            build = replace(candidate.spec.build, variant=variant, opt=opt)
            candidate.spec = replace(candidate.spec, build=build)
        self._depends = Dependencies()
        self._benches = {c.name: self._depends.bench(c.spec) for c in self.candidates}
        self._lock = threading.Lock()
        self.broken: list[str] = []  # runs that say nothing about a mutant
        self.open: list[str] = []  # mutants for which there was no time

    # ---- what is known already

    def key(self, mutant: SourceMutant, test: str = "") -> str:
        """Return the key that an outcome depends on; `test` is the one that killed, "" stands
        for all."""
        effort = "" if test else str(self.effort)
        digest = hashlib.sha256(f"{mutant.id}\0{self.without}\0{effort}".encode())
        for file in sorted({mutant.file, *(f for f in self.sources if f.endswith("_pkg.sv"))}):
            digest.update(self.sources[file].encode("latin-1"))
        benches = [self._benches.get(test, "")] if test else sorted(set(self._benches.values()))
        digest.update("\0".join(benches).encode())
        return digest.hexdigest()[:16]

    def known(self, mutant: SourceMutant) -> MutantOutcome | None:
        """Return the outcome of an earlier command if it still holds."""
        old = None if self.again else self.store.get(mutant.id)
        if old is None or old.state is State.WAIVED:
            return None
        test = f"{old.test} {old.build}" if old.state is State.KILLED else ""
        holds = self.key(mutant, test) == old.key
        return replace(old, line=mutant.line) if holds else None

    # ---- running

    def probe(self, jobs: int, end: Callable[[], None]) -> bool:
        """Run every test once without a mutant, unless an earlier command did on this build.

        Returns:
            False when it was interrupted.

        Raises:
            NfError: a test is red.
        """
        by_id = {}
        specs = []
        for candidate in self.candidates:
            if not self.again and self._probed(candidate):
                continue
            spec = self._spec(candidate, rewrite.PROBE)
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
            path = self._seen_path(candidate)
            path.parent.mkdir(parents=True, exist_ok=True)
            found = {"seconds": candidate.seconds, "seen": sorted(candidate.seen)}
            output.write_text(path, json.dumps(found))

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
        digest = hashlib.sha256("\0".join(words).encode())
        return self.store.folder / "seen" / f"{digest.hexdigest()[:16]}.json"

    def _probed(self, candidate: Candidate) -> bool:
        try:
            found = as_object(parse_json(read_text(self._seen_path(candidate))))
        except (OSError, DataError):
            return False
        candidate.seconds = float(found["seconds"])
        candidate.seen = frozenset(found["seen"])
        return True

    def run(
        self, jobs: int, came: Callable[[MutantOutcome], None], end: Callable[[], None]
    ) -> bool:
        """Run all mutants without a known outcome; `came` receives each outcome. Returns False
        when interrupted."""
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
        """Run tests on a mutant until one is red, a proof ends it, or none is left."""
        mutant = self.mutants[number]
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
                return self._outcome(mutant, State.KILLED, ran, seconds, record, candidate), record
        if not tried:
            proof = self.prove(mutant)
        state = State.EQUIVALENT if proof else State.SURVIVED if ran else State.UNSEEN
        note = proof or f"{len(ran)} of {len(ranked)} tests that see it ran, {seconds:.0f} s"
        return self._outcome(mutant, state, ran, seconds, note=note), record

    def waves(self, id: str) -> tuple[str, ...]:
        """Return wave files of a test that sees a mutant: without and with it, on a separate
        build; none if no test sees it."""
        number = next(n for n, mutant in self.mutants.items() if mutant.id == id)
        for candidate in self._ranked(number):
            build = candidate.spec.build
            build = replace(build, waves=registry.get(build.sim).wave_format)
            shown = replace(candidate, spec=replace(candidate.spec, build=build))
            records = [self.runner(self._spec(shown, n)) for n in (0, number)]
            return tuple(record.waves for record in records if record.waves)
        return ()

    def _ranked(self, number: int) -> list[Candidate]:
        """Return the tests that see the mutant, by expected kills a second."""
        mutant = self.mutants[number]
        module = mutant.module
        watchers = self.watchers.get((mutant.file, mutant.line), ())

        def worth(candidate: Candidate) -> float:
            meant = self._meant(mutant, candidate)
            chance = self.store.chance(module, candidate.name, meant)
            if candidate.name in watchers:
                chance = max(chance, _WATCHES)
            return chance / candidate.seconds

        with self._lock:
            return sorted(
                (c for c in self.candidates if c.sees(number, module)), key=worth, reverse=True
            )

    def _meant(self, mutant: SourceMutant, candidate: Candidate) -> int:
        """Count the listed mutants of its module, or of the one that it feeds, that a test must
        catch."""
        test = candidate.spec.name
        return sum(self.meant.get((name, test), 0) for name in {mutant.module, mutant.feeds})

    def _spec(self, candidate: Candidate, number: int) -> RunSpec:
        """Return the run of a test with a mutant; `number` is 0 or PROBE for none."""
        spec = candidate.spec
        environment = [*spec.env, (rewrite.VARIABLE, str(number))]
        if number == rewrite.PROBE:
            environment.append((rewrite.SEEN, "seen"))  # in the folder of the run
        limit = spec.timeout_s
        if candidate.seen is not None:
            limit = min(limit, candidate.seconds * _SLOWER + _MORE_S)
        return replace(
            spec,
            env=tuple(environment),
            timeout_s=limit,
            build_name=f"{spec.build_name}-m{number}",
        )

    def _outcome(
        self,
        mutant: SourceMutant,
        state: State,
        ran: Sequence[str],
        seconds: float,
        record: RunRecord | None = None,
        killer: Candidate | None = None,
        note: str = "",
    ) -> MutantOutcome:
        kill = record is not None and killer is not None
        return MutantOutcome(
            id=mutant.id,
            file=mutant.file,
            module=mutant.module,
            operator=mutant.operator,
            line=mutant.line,
            diff=mutant.diff(self.sources[mutant.file]),
            state=state,
            key=self.key(mutant, killer.name if killer else ""),
            test=killer.spec.name if killer else "",
            build=killer.spec.build_name if killer else "",
            kind=str(record.kind) if kill and record else "",
            cause=record.cause if kill and record else "",
            tests=tuple(ran),
            seconds=round(seconds, 2),
            note=note,
        )

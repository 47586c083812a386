# SPDX-License-Identifier: Apache-2.0
"""Execution of one proof: model, solver, result and record.

A proof passes if its properties hold *and* every cover statement is reached. A counterexample, an
assumption that excludes the covers, a non-inductive step and a time-out all fail: what is unknown
is not proved.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from scripts.common import tool_environment
from scripts.common.budget import Budget, UsedUp
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import shown
from scripts.common.records import CaseResult, FailureKind, RunRecord, RunSpec, Verdict
from scripts.prove import counterexample, crc_matrix, float_adder, model, solvers
from scripts.prove.proof import BITWUZLA, Method, Proof
from scripts.run import run_folders, simulate


@dataclass
class ProofOutcome:
    """Result of a proof under construction.

    Attributes:
        properties: Names of the assertions.
        failed: Those that do not hold.
        covers: Names of the cover statements.
        kind: Kind of failure; None while nothing has failed.
        cause: Cause of the failure.
        log: Log of the solver.
        waves: Waveform of the counterexample.
        stimulus: Stimulus of the counterexample.
        facts: Further entries for the record.
    """

    properties: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
    kind: FailureKind | None = None
    cause: str = ""
    log: Path | None = None
    waves: Path | None = None
    stimulus: Path | None = None
    facts: dict[str, object] = field(default_factory=dict)

    def red(
        self, kind: FailureKind, cause: str, answer: solvers.Answer | None = None
    ) -> ProofOutcome:
        """Mark this result as failed, with the solver's answer if there is one, and return it."""
        self.kind, self.cause = kind, cause
        if answer is not None:
            self.failed, self.log, self.waves = answer.failed, answer.log, answer.waves
        return self


def run(proof: Proof, runs: Path, shown_as: str = "") -> RunRecord:
    """Execute a proof in its own folder in ``runs`` and return its record; failures do not raise.

    Args:
        proof: The proof.
        runs: Parent of the folder.
        shown_as: Name of the build in the record, for a mutant; "" for the default.
    """
    spec = proof.spec
    if shown_as:
        spec = replace(spec, build_name=shown_as)
    folder = runs / spec.id
    start, budget = time.monotonic(), Budget(proof.timeout)
    run_folders.empty(folder)
    try:
        found = _TRIES[proof.method](proof, folder, budget)
    except UsedUp as error:
        found = ProofOutcome().red(FailureKind.TIME_OUT, str(error))
    except BuildError as error:
        found = ProofOutcome().red(FailureKind.BUILD, str(error))
    except (NfError, OSError) as error:
        found = ProofOutcome().red(FailureKind.INFRASTRUCTURE, str(error))
    found.facts = {
        "method": str(proof.method),
        "depth": proof.depth,
        "covers": len(found.covers),
        **found.facts,
    }
    return _record(spec, folder, found, time.monotonic() - start, budget.used)


def not_tried(spec: RunSpec, cause: str, runs: Path) -> RunRecord:
    """Write and return the record of a proof that could not be executed, for the given cause."""
    folder = runs / spec.id
    run_folders.empty(folder)
    return _record(spec, folder, ProofOutcome().red(FailureKind.INFRASTRUCTURE, cause))


def _record(
    spec: RunSpec, folder: Path, found: ProofOutcome, seconds: float = 0.0, used: float = 0.0
) -> RunRecord:
    status = "passed" if found.kind is None else "failed"
    record = RunRecord.of(
        spec,
        Verdict(found.kind is None, found.kind, found.cause),
        seconds=round(seconds, 3),
        used_seconds=round(used, 3),
        cases=tuple(
            CaseResult(name, "failed" if name in found.failed else status, round(seconds, 3), 0.0)
            for name in found.properties
        ),
        log=shown(found.log or folder / "yosys.log"),
        waves=shown(found.waves) if found.waves else None,
        environment=tool_environment.passed(),
        metrics=found.facts,
        stimulus=(shown(found.stimulus),) if found.stimulus else (),
    )
    return simulate.save(record, folder)


def _clocked(proof: Proof, folder: Path, budget: Budget) -> ProofOutcome:
    """Prove a wrapper's assertions from reset, by induction if requested, and check its covers."""
    made = model.make(proof, folder, budget)
    out = ProofOutcome(made.asserts, covers=made.covers)
    unrolled = proof.solver == BITWUZLA
    ask = solvers.ask_bitwuzla if unrolled else solvers.ask_yices
    questions = {"bmc": proof.depth, "induction": proof.depth, "cover": proof.cover}
    if proof.method is not Method.INDUCTION:
        del questions["induction"]
    for what, depth in questions.items():
        if what == "cover" and proof.method is Method.ONCE and made.state:
            return out.red(FailureKind.MISMATCH, f"{proof.top} has state: one clock is not all")
        answer = ask(made, what, depth, budget)
        if what == "bmc" and unrolled and answer.holds is False:
            # It leaves no counterexample: yices is asked for one. If that finds none in time, the
            # assertions are broken nevertheless.
            second = solvers.ask_yices(made, what, depth, budget)
            answer = answer if second.holds is None else second
        if answer.holds is None:
            return out.red(*_no_answer(what, proof, answer))
        if not answer.holds:
            if what == "bmc" and answer.witness is not None:
                out.stimulus = counterexample.write(proof, answer.witness, answer.failed, folder)
            kind = FailureKind.ASSERTION if what == "bmc" else FailureKind.MISMATCH
            return out.red(kind, _why(what, proof, answer), answer)
    return out


def _why(what: str, proof: Proof, answer: solvers.Answer) -> str:
    """Return the reason of a question that was answered by no."""
    names = ", ".join(answer.failed) or "an assertion"
    return {
        "bmc": f"{names} in {proof.top}: broken at clock {answer.step}",
        "induction": f"not inductive at k = {proof.depth}: {names} (a state that may not be "
        "reachable)",
        "cover": f"over-constrained: {proof.cover} clocks do not reach {names}",
    }[what]


def _no_answer(what: str, proof: Proof, answer: solvers.Answer) -> tuple[FailureKind, str]:
    if answer.said:
        return FailureKind.INFRASTRUCTURE, f"{what}: the solver said nothing: {answer.said}"
    limit = f"{proof.timeout:g} s of processor time"
    return FailureKind.TIME_OUT, f"unknown: {what} came to no end in {limit}"


def _linear(proof: Proof, folder: Path, budget: Budget) -> ProofOutcome:
    found = crc_matrix.prove(proof, folder, budget)
    out = ProofOutcome(tuple(found), facts={"argument": crc_matrix.ARGUMENT})
    wrong = {name: why for name, why in found.items() if why}
    if wrong:
        out.red(FailureKind.ASSERTION, "; ".join(f"{n}: {why}" for n, why in wrong.items()))
        out.failed = tuple(wrong)
    return out


def _float(proof: Proof, folder: Path, budget: Budget) -> ProofOutcome:
    prop, wrong, unknown = float_adder.prove(proof, folder, budget)
    out = ProofOutcome((prop,), facts={"classes": proof.id.partition("/")[2]})
    if unknown:
        out.red(FailureKind.TIME_OUT, f"unknown: {unknown}")
    if wrong:
        out.red(FailureKind.ASSERTION, wrong)
        out.failed = (prop,)
    return out


_TRIES = {
    Method.INDUCTION: _clocked,
    Method.BMC: _clocked,
    Method.ONCE: _clocked,
    Method.LINEAR: _linear,
    Method.FLOAT: _float,
}

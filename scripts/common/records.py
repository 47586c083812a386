# SPDX-License-Identifier: Apache-2.0
"""Typed data of the runner: designs to build, runs (BuildSpec, RunSpec) and results (RunRecord).

All are frozen and hold plain values only, so they can be compared, hashed into a build key, sent to
another process and written as JSON.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from neuron_fabric.data import DataError, encodable
from neuron_fabric.typed import FieldRule, typed
from scripts.common.paths import ROOT

# The design under test, unless a build names another.
TOP = "nf_controller"
FILELIST = "hdl/nf_controller.f"
SOLVER = "smt"
"""Stands in records of proofs where a run has its simulator."""
FIXED_SEED = 1
"""Seed that every suite runs; the others of a suite are drawn anew each day."""


class Dut(StrEnum):
    """Implementation of those RTL modules that have a second one in MyHDL (`models/myhdl`)."""

    RTL = "rtl"  # the hand-written modules
    MYHDL = "myhdl"  # their twins, converted to Verilog
    BOTH = "both"  # the hand-written modules; the twins are there, too, for a bench that names them


class Waves(StrEnum):
    """File formats of waveforms."""

    VCD = "vcd"
    FST = "fst"


class FailureKind(StrEnum):
    """Class of the cause of a failed run."""

    ASSERTION = "assertion"  # an assertion in the RTL fired
    MISMATCH = "mismatch"  # a checker of the bench raised
    TIME_OUT = "time-out"  # the limits of `cpu_time`, or a simulated-time limit of the test
    CRASH = "crash"  # the simulator or the bench died of something no checker raised
    BUILD = "build"  # the design did not compile
    NO_TEST = "no test"  # nothing ran: an empty result is never green
    INFRASTRUCTURE = "infrastructure"  # disk, permissions, missing tool


@dataclass(frozen=True)
class Edit:
    """One replacement in a source file: `old`, which must occur exactly once in `file`, by `new`.

    `file` is relative to the root of the repository.
    """

    file: str
    old: Annotated[str, FieldRule(len, "a text to replace")]
    new: str


@dataclass(frozen=True)
class BuildSpec:
    """A design to compile. Equal specs over equal sources share one build directory.

    Attributes:
        sim: Name of a simulator in `scripts/build/registry.py`.
        top: Top module.
        filelist: File list of the sources, relative to `root`.
        root: Root of the project that has the design.
        parameters: Parameters of the top module, as pairs.
        defines: Preprocessor macros, as pairs.
        edits: Replacements made in a copy of the sources; the tree itself is not changed.
        variant: Name of a folder below `paths.VARIANTS`, by its content, whose files are compiled
            in place of those of the design; "" for none.
        dut: Implementation of the modules that have a MyHDL twin.
        public: Internal variables ("module.variable") that a test reads, for simulators that
            otherwise show the top-level ports only.
        waves: Waveform format; None for no waves.
        coverage: Whether to collect code coverage.
        opt: Optimization level of the C++ compiler.
    """

    sim: str
    top: str
    filelist: str
    root: Path = ROOT
    parameters: tuple[tuple[str, int], ...] = ()
    defines: tuple[tuple[str, str], ...] = ()
    edits: tuple[Edit, ...] = ()
    variant: str = ""
    dut: Dut = Dut.RTL
    public: tuple[str, ...] = ()
    waves: Waves | None = None
    coverage: bool = False
    opt: str = "-O1"

    @property
    def copied(self) -> bool:
        """True if a modified copy of the sources is compiled (edits, a variant, or MyHDL twins)."""
        return bool(self.edits or self.variant or self.dut is not Dut.RTL)


@dataclass(frozen=True)
class RunSpec:
    """One simulator process to run: some tests of one module, on one build, with one seed.

    Attributes:
        module: Python module with the cocotb tests.
        tests: Names of tests; empty for every test of the module.
        seed: Seed of random stimulus.
        timeout_s: Seconds of processor time; see `scripts/common/cpu_time.py` for the limits that
            follow from it.
        env: Variables in addition to the environment of every tool, as pairs.
        build_name: Name of the build in the testplan.
        rerun: Shell command that runs this again; "" to derive it from the other fields.
        direct: Start a new simulator process instead of a fork of a running one.
        window_ns: Simulated time to keep in waves, from and to; None for all.
    """

    build: BuildSpec
    module: str
    tests: tuple[str, ...] = ()
    seed: int = 1
    timeout_s: float = 600.0
    env: tuple[tuple[str, str], ...] = ()
    build_name: str = "default"
    rerun: str = ""  # command line that runs this again; made from the rest when empty
    direct: bool = False  # start the simulator afresh, not as a fork of one that is up
    window_ns: tuple[float, float] | None = None  # simulated time that waves are kept of; all else

    @property
    def short_module(self) -> str:
        """Name of `module` without its package."""
        return self.module.rpartition(".")[2]

    @property
    def name(self) -> str:
        """`test_module::test`; `test_module::*` for several tests or all."""
        test = self.tests[0] if len(self.tests) == 1 else "*"
        return f"{self.short_module}::{test}"

    @property
    def id(self) -> str:
        """Unique name of the run within one invocation of `nf`; valid as a file name."""
        test = self.tests[0] if len(self.tests) == 1 else "all"
        raw = f"{self.short_module}.{test}-{self.build.sim}-{self.build_name}-s{self.seed}"
        return "".join(c if c.isalnum() or c in "._-=" else "_" for c in raw)

    def to_json(self) -> dict[str, Any]:
        """Convert to a dictionary of JSON values; a `root` in this project becomes "."."""
        build = dataclasses.asdict(self.build)
        build["root"] = "." if self.build.root == ROOT else str(self.build.root)
        return _plain({**dataclasses.asdict(self), "build": build})

    @staticmethod
    def from_json(data: dict[str, Any]) -> RunSpec:
        """Convert the dictionary of `to_json` back; "." becomes the root of this checkout.

        Raises:
            DataError: The dictionary does not fit; names the field.
        """
        known = {key: data[key] for key in data if key != "plusargs"}  # () in earlier histories
        spec = typed(RunSpec, known)
        return replace(spec, build=replace(spec.build, root=ROOT / spec.build.root))


def _plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a dictionary as it would be after a round trip through JSON.

    Raises:
        DataError: JSON cannot represent a value (NaN).
    """
    try:
        out: dict[str, Any] = json.loads(json.dumps(encodable(fields), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise DataError(f"a record that JSON cannot hold ({error})") from None
    return out


@dataclass(frozen=True)
class CaseResult:
    """Result of one cocotb test, from the result file (XML) of the simulation.

    Attributes:
        name: Name of the test.
        status: "passed", "failed" or "skipped".
        seconds: Wall-clock time.
        sim_time_ns: Simulated time.
        message: Text of the exception; "" for none.
        error_type: Its class.
        cause_key: Key of the cause of a failed test; "" in a result file without that of a checker.
        place: "file:line" of the testbench that raised.
    """

    name: str
    status: str
    seconds: float
    sim_time_ns: float
    message: str = ""
    error_type: str = ""
    cause_key: str = ""
    place: str = ""  # file:line of the bench that raised


@dataclass(frozen=True)
class Verdict:
    """Judgement of a run: passed, or the kind and the text of the failure.

    `key` is equal for all runs that fail for one cause (see `cause_key.key_of`).
    """

    passed: bool
    kind: FailureKind | None = None
    cause: str = ""
    key: str = ""

    def __post_init__(self) -> None:
        """Raise ValueError for a pass with a kind of failure, and for a failure without one."""
        if self.passed is not (self.kind is None):
            raise ValueError(f"passed is {self.passed}, and the kind of failure is {self.kind}")


@dataclass(frozen=True)
class RunRecord:
    """Result of a RunSpec, written as `record.json`; every report is made from these.

    A run that failed and passed when it was run again is `flaky`: `passed` stays False, and kind
    and cause are those of the failure. `note` has the result of the second run in one line.
    `cause_key` is equal for all runs that fail for one cause (see `cause_key.key_of`). `stimulus`
    shows a reduced scenario: summary, one operation a line, a command line to copy. `known` is set
    in a failed run that does not gate (`scripts/report/known_failures.py`).
    """

    id: str
    name: str
    sim: str
    seed: int
    build_name: str
    parameters: tuple[tuple[str, int], ...]
    passed: bool
    kind: FailureKind | None
    cause: str
    build_seconds: float = 0.0
    seconds: float = 0.0
    sim_time_ns: float = 0.0
    cases: tuple[CaseResult, ...] = ()
    log: str = ""
    waves: str | None = None
    coverage: str | None = None
    rerun: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    cycles: int | None = None  # clock cycles, where the bench counts them
    sim_seconds: float = 0.0  # part of `seconds` that the simulator's process took
    used_seconds: float = 0.0  # its processor time, or its wall-clock time if that is unknown
    flaky: bool = False
    note: str = ""
    rerun_log: str | None = None  # log of the automatic rerun with waves
    cause_key: str = ""
    stimulus: tuple[str, ...] = ()
    line_history: tuple[str, ...] = ()  # of the failing line, if the run had waves
    environment: tuple[tuple[str, str], ...] = ()  # variables of the caller that reached the run
    known: str = ""  # ticket and last day of the known failure that it is
    sim_version: str = ""

    @staticmethod
    def of(spec: RunSpec, verdict: Verdict, **facts: Any) -> RunRecord:
        """Make the record of a run from its spec and verdict.

        Args:
            spec: The run.
            verdict: Passed, or the failure.
            facts: Further fields of the record; they override those taken from the spec.
        """
        own = {"id": spec.id, "name": spec.name, "sim": spec.build.sim, "rerun": spec.rerun}
        fields: dict[str, Any] = {**own, **facts}
        return RunRecord(
            seed=spec.seed,
            build_name=spec.build_name,
            parameters=spec.build.parameters,
            passed=verdict.passed,
            kind=verdict.kind,
            cause=verdict.cause,
            cause_key=verdict.key,
            **fields,
        )

    @property
    def status(self) -> str:
        """ "passed", "failed", or "flaky", which does not count as passed."""
        return "flaky" if self.flaky else "passed" if self.passed else "failed"

    @property
    def red(self) -> bool:
        """True if the run makes its command fail."""
        return not self.passed and not self.known

    def to_json(self) -> dict[str, Any]:
        """Convert to a dictionary of JSON values, ready for json.dump."""
        return _plain(dataclasses.asdict(self))

    @staticmethod
    def from_json(data: dict[str, Any]) -> RunRecord:
        """Convert the dictionary of `to_json` back; DataError names a field that does not fit."""
        return typed(RunRecord, data)

# SPDX-License-Identifier: Apache-2.0
"""Order of runs: last failed first, then with changed files, then new, then the rest.

In each class the longest runs come first, so that parallel jobs end together. A missing build is
started early.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path

from scripts.build import registry
from scripts.build.build_cache import STAMP, build_directory, earlier_seconds
from scripts.common.errors import NfError
from scripts.common.paths import SIM_BUILDS
from scripts.common.records import BuildSpec, RunSpec
from scripts.history.database import History, Key, keys_of
from scripts.plan.depends import Dependencies


class Reason(IntEnum):
    """Priority class of a run; lower values run first."""

    FAILED = 0
    CHANGED = 1
    NEW = 2
    KNOWN = 3


@dataclass(frozen=True)
class Memory:
    """Extract of the history of runs, read once; without a history it is empty: all tests are new.

    A Key is (test id, simulator, build name).

    Attributes:
        durations: Mean seconds of the last five runs, by key.
        seeds: Seeds of the last command that ran the test, by key.
        red: Key and seed whose last run did not pass.
        green: Key and fingerprint (`Dependencies.fingerprint`) of runs that passed.
        largest_seed: Largest seed ever used.
    """

    durations: Mapping[Key, float] = field(default_factory=dict)
    seeds: Mapping[Key, tuple[int, ...]] = field(default_factory=dict)
    red: frozenset[tuple[Key, int]] = frozenset()
    green: frozenset[tuple[Key, str]] = frozenset()
    largest_seed: int = 0

    @staticmethod
    def read(path: Path | None = None) -> Memory:
        """Read the history from its file, by default `paths.HISTORY`.

        Raises:
            NfError: The file is missing or damaged.
        """
        with History(path, write=False) as history:
            red = {
                ((test, run.record.sim, run.record.build_name), run.record.seed)
                for test, run in history.red()
            }
            return Memory(
                history.durations(),
                history.last_seeds(),
                frozenset(red),
                frozenset(history.green()),
                history.largest_seed(),
            )

    @staticmethod
    def read_if_any() -> Memory:
        """Read the default history; return an empty Memory if it is missing or damaged.

        The writer of the history reports the damage.
        """
        try:
            return Memory.read()
        except NfError:
            return Memory()

    def seconds(self, spec: RunSpec) -> float | None:
        """Return the sum of the recorded durations of a run's tests; None if one was never run."""
        keys = keys_of(spec)
        known = bool(keys) and all(key in self.durations for key in keys)
        return sum(self.durations[key] for key in keys) if known else None

    def unchanged(self, spec: RunSpec, fingerprint: str) -> bool:
        """Return whether every test of the run has passed with exactly these files."""
        keys = keys_of(spec)
        return bool(keys) and all((key, fingerprint) in self.green for key in keys)


def reason(spec: RunSpec, memory: Memory, fingerprint: str) -> Reason:
    """Return the priority class of a run; `fingerprint` is the hash of the files it depends on."""
    keys = keys_of(spec)
    if any((key, spec.seed) in memory.red for key in keys):
        return Reason.FAILED
    if not any(key in memory.durations for key in keys):
        return Reason.NEW
    return Reason.KNOWN if memory.unchanged(spec, fingerprint) else Reason.CHANGED


def arrange(
    specs: Iterable[RunSpec],
    memory: Memory,
    fingerprints: Mapping[str, str],
    missing: Container[BuildSpec] = (),
) -> list[RunSpec]:
    """Return the runs in the order in which to start them (see the module).

    After failed runs comes one run of each ``missing`` build, so that jobs compile in parallel
    instead of waiting for each other.

    Args:
        specs: Runs.
        memory: Extract of the history.
        fingerprints: Hash of the files that a run depends on, by `RunSpec.id`.
        missing: Builds that are not compiled (`missing_builds`).
    """
    todo = list(specs)
    why = {spec.id: reason(spec, memory, fingerprints.get(spec.id, "")) for spec in todo}

    def place(spec: RunSpec) -> tuple[int, float, bool]:
        # Of what is unknown, what compiles at once first: the slow compilers have time meanwhile.
        seconds = memory.seconds(spec) or 0.0
        return why[spec.id], -seconds, registry.get(spec.build.sim).compiles_slowly

    todo.sort(key=place)
    failed = [spec for spec in todo if why[spec.id] is Reason.FAILED]
    rest = [spec for spec in todo if why[spec.id] is not Reason.FAILED]
    begun = {spec.build for spec in failed}
    first: list[RunSpec] = []
    for spec in rest:
        if spec.build in missing and spec.build not in begun:
            begun.add(spec.build)
            first.append(spec)
    first.sort(key=lambda spec: not registry.get(spec.build.sim).compiles_slowly)
    return failed + first + [spec for spec in rest if spec not in first]


def missing_builds(
    specs: Iterable[RunSpec], base: Path = SIM_BUILDS
) -> dict[BuildSpec, float | None]:
    """Return the builds that these runs have to make, each with the seconds that the last build of
    its top under its simulator took, if there was one."""
    builds = dict.fromkeys(spec.build for spec in specs)
    return {one: earlier_seconds(one, base) for one in builds if not _built(one, base)}


def _built(build: BuildSpec, base: Path) -> bool:
    try:
        return (build_directory(build, base)[0] / STAMP).is_file()
    except (NfError, OSError):
        return True  # it cannot be built: nothing to start early


def fingerprints(specs: Iterable[RunSpec]) -> dict[str, str]:
    """Return `Dependencies.fingerprint` of each run, by `RunSpec.id`."""
    depends = Dependencies()
    return {spec.id: depends.fingerprint(spec) for spec in specs}

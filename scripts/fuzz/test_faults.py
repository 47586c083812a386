# SPDX-License-Identifier: Apache-2.0
"""Fuzz cases of faults of the machine: signals, resource limits, closed pipes, links."""

from __future__ import annotations

import resource

from scripts.fuzz import case_files
from scripts.fuzz.case_files import OUT, REPLAY, undamaged
from scripts.fuzz.fuzz_case import FuzzCase, group

SIGNALS = ("INT", "TERM", "HUP", "KILL")
ENDED = (0, 1, 2, 129, 130, 143)
SIM = ("replay", "c", "--sim", "icarus")


@group("fault", stop=SIGNALS, again=range(1, 9))
def test_stop_and_resume(case: FuzzCase, stop: str, again: int) -> None:
    """A stopped replay gives with --resume the same tensors as one that was not stopped."""
    case_files.capture(case.folder, steps=3)
    same = {OUT: undamaged(3, "--steps", "2")}
    words = (*REPLAY, "--steps", "2", "--out", OUT)
    case.execute(*words, stop=stop)
    case.run(*words, "--resume", build=True, same=same)


@group("fault", stop=SIGNALS, again=range(1, 4))
def test_stop_signal_replay(case: FuzzCase, stop: str, again: int) -> None:
    """No simulator is left when a signal ends a replay."""
    case_files.capture(case.folder)
    case.run(*SIM, stop=stop, build=True, exit=ENDED)


@group("fault", stop=SIGNALS, again=range(1, 4))
def test_stop_run(case: FuzzCase, stop: str, again: int) -> None:
    """No simulator is left when a signal ends a run."""
    case.run("run", "test_regs::unmapped", "--sim", "icarus", stop=stop, exit=ENDED)


FEW, SMALL = (8, 10, 12, 16, 24, 32), (3000, 5000, 10000, 30000, 100000)


@group(
    "fault",
    limit={f"{n} files": (resource.RLIMIT_NOFILE, n) for n in FEW}
    | {f"{n} bytes": (resource.RLIMIT_FSIZE, n) for n in SMALL},
)
def test_few_or_small_files(case: FuzzCase, limit: tuple[int, int]) -> None:
    """A replay under a limit of open files or file size gives right tensors or fails cleanly."""
    case_files.capture(case.folder)
    same = {OUT: undamaged()}
    limits = dict([limit])
    case.run(*REPLAY, "--out", OUT, limits=limits, build=True, exit=[0, 1, 2], same=same)


@group("fault", limit=[200000000, 400000000, 800000000])
def test_little_memory(case: FuzzCase, limit: int) -> None:
    """A check of a capture under a limit of memory ends with exit code 0 or a clear refusal."""
    case_files.capture(case.folder)
    env = {"OPENBLAS_NUM_THREADS": "1"}
    case.run("capture", "check", "c", limits={resource.RLIMIT_AS: limit}, env=env)


@group("fault", stdout=["full", "pipe"], verb=["list", "history", "report", "doctor"])
def test_no_reader(case: FuzzCase, stdout: str, verb: str) -> None:
    """A command whose standard output is full or closed ends without a traceback."""
    case_files.history(case.folder)
    case.run(verb, stdout=stdout, exit=[0, 1, 2])


@group("fault", stdout=["full", "pipe"], transport=["signal", "bulk"])
def test_no_reader_of_replay(case: FuzzCase, stdout: str, transport: str) -> None:
    """A replay whose standard output is full or closed fails without a traceback."""
    case_files.capture(case.folder)
    case.run(*SIM, "--transport", transport, build=True, stdout=stdout, exit=[1, 2])


@group("hostile", file=[f"{OUT}.icarus.journal", f"{OUT}.part", OUT])
def test_journal_link(case: FuzzCase, file: str) -> None:
    """A link in place of a file that a replay writes is not followed."""
    case_files.capture(case.folder)
    case_files.link(case.folder, file, "decoy.txt")
    case.run(*REPLAY, "--out", OUT, build=True)


@group("hostile")
def test_build_link(case: FuzzCase) -> None:
    """A link in place of the build folder leads `nf clean` to no other folder."""
    case_files.text(case.folder, "elsewhere/sim-x/keep", "x\n")
    case_files.link(case.folder, "build", "elsewhere")
    case.run("clean", "--days", "1")
    assert (case.folder / "elsewhere/sim-x/keep").is_file()

# SPDX-License-Identifier: Apache-2.0
"""Tests of the options of `nf mutate` for source mutants: which mutants, which tests."""

from __future__ import annotations

import argparse
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from scripts.build import registry
from scripts.build.filelist import read_filelist
from scripts.cli import mutate, mutate_source
from scripts.cli.conftest import Nf
from scripts.common.paths import ROOT
from scripts.common.records import FILELIST
from scripts.mutation import package_run
from scripts.mutation.mutant_outcome import MutantOutcome, State
from scripts.plan import listed_mutants
from scripts.report import mutation
from scripts.run.schedule import RunProgress

POSSIBLE = any(one.links_c and one.available() for one in registry.simulators())


def _args(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    mutate_source.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.skipif(not POSSIBLE, reason="no simulator that builds many mutants")
def test_a_test_or_a_checker_is_taken_away() -> None:
    both = ("--tests", "test_modes::fp32", "--tests", "test_link_block::random_traffic")
    all_of_them = {one.name for one in mutate_source.candidates(_args(*both))}
    assert {"test_modes::fp32 default", "test_link_block::random_traffic link"} <= all_of_them
    some = mutate_source.candidates(_args(*both, "--without", "sequence:test_modes::*"))
    assert {one.name for one in some} == {
        name for name in all_of_them if not name.startswith("test_modes")
    }
    (link,) = [one for one in some if one.spec.build_name == "link"]
    assert "nf_link_lrsm" in link.modules
    assert "nf_engine" not in link.modules
    off = mutate_source.candidates(_args(*both, "--without", "checker:scoreboard"))
    assert all(("NF_CHECKERS_OFF", "scoreboard") in one.spec.env for one in off)


@pytest.mark.skipif(not POSSIBLE, reason="no simulator that builds many mutants")
def test_every_build_compiles_the_number_of_the_mutant_first() -> None:
    """Check that the first source is the same in the file lists of all builds with mutants.

    `write_variant` declares the number of the active mutant there.
    """
    carrier = read_filelist(ROOT, FILELIST).sources[0]
    lists = {one.spec.build.filelist for one in mutate_source.candidates(_args())}
    assert len(lists) > 3
    assert {read_filelist(ROOT, name).sources[0] for name in lists} == {carrier}


def test_list_shows_diffs(nf: Nf) -> None:
    out = nf("mutate", "--list", "--sample", "2", "--id", "nf_capacity.*")
    assert out.count("hdl/engine/nf_capacity.sv:") == 2
    assert "    -  " in out
    assert "    +  " in out


@pytest.mark.parametrize(
    ("states", "floor", "code"),
    [
        ([], None, 1),  # no time for any
        ([], "97", 1),
        ([State.EQUIVALENT], None, 0),
        ([State.EQUIVALENT], "97", 1),  # nothing to hold against the floor
        ([State.KILLED], "97", 0),
        ([State.KILLED, State.SURVIVED], None, 1),
        ([State.KILLED, State.SURVIVED], "97", 1),
        ([State.KILLED, State.UNSEEN], "50", 0),
    ],
)
def test_exit_code(
    states: list[State], floor: str | None, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[object] = []
    monkeypatch.setattr(mutation, "write", written.append)
    outcomes = [
        MutantOutcome(f"m{n}", "hdl/a.sv", "a", "reset", 1, "", state, "")
        for n, state in enumerate(states)
    ]
    mutant_runs = SimpleNamespace(broken=[], open=["late"], waived={})
    args = _args(*(("--floor", floor) if floor else ()))
    assert mutate_source._report(outcomes, mutant_runs, args, True, 1.0) == code  # type: ignore[arg-type]
    assert len(written) == bool(states)  # a command that judged nothing keeps the last score


def test_an_interrupted_probe_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nf: Nf
) -> None:
    class Interrupted:
        candidates = ()
        mutants: ClassVar = {1: None}

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def known(self, _mutant: object) -> None:
            return None

        def probe(self, _jobs: int, _end: object) -> bool:
            return False

    monkeypatch.setattr(mutate_source, "MutantRuns", Interrupted)
    monkeypatch.setattr(mutate_source, "_RUNS", tmp_path)
    monkeypatch.setattr(mutate_source, "candidates", lambda _: [])
    words = ["mutate", "--sample", "1", "--id", "nf_capacity.*", "--no-prove"]
    assert "they are green" not in nf(*words, code=130)


def test_an_interrupt_leaves_out_the_package(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, nf: Nf
) -> None:
    def interrupted(_self: object, _runner: object, interrupted: threading.Event) -> list[object]:
        interrupted.set()
        return []

    monkeypatch.setattr(mutate, "RUNS", tmp_path)
    monkeypatch.setattr(RunProgress, "run", interrupted)
    monkeypatch.setattr(package_run, "run", lambda *_: 0)
    assert "0 of" in nf("mutate", code=130)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("--sample 1 --without checker:nope", "nope"),
        ("--sample 1 --without nope", "sequence:GLOB or checker:NAME"),
        ("--sample 1 --without sequence:nope", "nope"),
        (
            "--sample 1 --tests test_modes::fp32 --without sequence:test_modes::fp32",
            "no test is left",
        ),
        ("--suite smoke", "--suite: of a list outside the tree; add --from FILE"),
    ],
)
@pytest.mark.skipif(not POSSIBLE, reason="no simulator that builds many mutants")
def test_words_that_do_not_fit(words: str, text: str, nf: Nf) -> None:
    assert text in nf("mutate", *words.split(), code=2)


def test_a_sample_has_no_slow_build(nf: Nf) -> None:
    """Check that --within leaves out listed mutants of a simulator that compiles slowly."""
    slow = {m.id for m in listed_mutants.read() if registry.get(m.sim).compiles_slowly}
    out = nf("mutate", "--list", "--part", "rtl", "--within", "1")
    shown = {line.split()[0] for line in out.splitlines()}
    assert slow
    assert shown
    assert not shown & slow


def test_mutants_of_the_checkers(nf: Nf) -> None:
    """Check that a sample is drawn by the seed, and that a finding left out is one of the kinds."""
    listed = []
    for seed in ("1", "1", "2"):
        words = ("--part", "checkers", "--sample", "9", "--seed", seed, "--list")
        listed.append(nf("mutate", *words))
    assert listed[0] == listed[1] != listed[2]
    out = nf("mutate", "--part", "checkers", "--id", "memory_agent.report.*", "--list")
    assert 'self._error(cycle, f"{what} holds X or Z")' in out

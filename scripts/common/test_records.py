# SPDX-License-Identifier: Apache-2.0
"""Tests of records of runs: made in one way, whether the run passed or not."""

from __future__ import annotations

import ast

import pytest

from scripts.checks import tracked_files
from scripts.common.paths import ROOT
from scripts.common.records import BuildSpec, FailureKind, RunRecord, RunSpec, Verdict

SPEC = RunSpec(BuildSpec("icarus", "toy", "toy.f"), "verif.tests.test_toy", ("one",), seed=7)


def test_a_record_says_what_the_verdict_says() -> None:
    passed = RunRecord.of(SPEC, Verdict(True), seconds=2.0)
    assert (passed.status, passed.kind, passed.cause, passed.seconds) == ("passed", None, "", 2.0)
    assert (passed.id, passed.name, passed.seed) == (SPEC.id, "test_toy::one", 7)
    failed = RunRecord.of(SPEC, Verdict(False, FailureKind.CRASH, "it died", "died"), sim="both")
    assert (failed.status, failed.kind, failed.cause_key) == ("failed", FailureKind.CRASH, "died")
    assert failed.sim == "both"


def test_a_verdict_does_not_contradict_itself() -> None:
    for passed, kind in ((True, FailureKind.CRASH), (False, None)):
        with pytest.raises(ValueError, match="the kind of failure"):
            Verdict(passed, kind)


def test_no_failure_is_turned_into_a_pass() -> None:
    """Check that no source calls `replace(.., passed=..)`, which could make a failure a pass."""
    for path in tracked_files.files(ROOT, ".py"):
        if not tracked_files.is_test(path):
            for node in ast.walk(ast.parse(path.read_bytes())):
                is_replace = isinstance(node, ast.Call) and ast.unparse(node.func) == "replace"
                words = {word.arg for word in node.keywords} if is_replace else set()  # type: ignore[attr-defined]
                assert "passed" not in words, f"{path}:{node.lineno}"  # type: ignore[attr-defined]

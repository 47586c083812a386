# SPDX-License-Identifier: Apache-2.0
"""Tests of the journal fuzzer: a sample passes, and it finds faults that are put in."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from scripts.fuzz import journals
from verif.replay import journal
from verif.replay.gradient_source import CaptureSource

CASES, SEED = 60, 1


@pytest.mark.nightly("12 s: 60 mixtures; test_journal damages each part of one")
def test_damage_and_mixtures_are_refused_or_harmless(tmp_path: Path) -> None:
    found = journals.run(CASES, SEED, tmp_path)
    assert set(found) == {"same", "refused"}
    assert min(found.values()) > CASES // 10


@pytest.mark.nightly("15 s: two faults of the journal, which the case above looks for")
def test_it_finds_records_that_are_not_bound_to_their_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "_check", lambda _, data: hashlib.sha256(data).digest()[:16])
    assert any("is another one" in text for text in journals.run(CASES, SEED, tmp_path))


@pytest.mark.nightly("15 s: two faults of the journal, which the case above looks for")
def test_it_finds_a_capture_that_is_known_by_its_name_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CaptureSource, "content", lambda self: "the same")
    assert any("is another one" in text for text in journals.run(CASES, SEED, tmp_path))

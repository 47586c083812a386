# SPDX-License-Identifier: Apache-2.0
"""The table of `nf train check`: which goal is reached by which numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from scripts.cli.train_check_goals import (
    ADAPTIVE,
    AUTO,
    BAD,
    BAD_MONITOR,
    BINARY,
    FED,
    FP32,
    GUIDED,
    LATE,
    TERNARY,
    Calibrated,
    CheckFindings,
    TrainingGoal,
    TrainingRow,
    goals,
    lines_of,
    missed,
)

ROW = TrainingRow(
    FP32,
    1,
    "torch",
    0.0,
    "w",
    0,
    1.0,
    200,
    {"FP32": 2000},
    {"FP32": 2000},
    {"steps": 40, "sent": {"FP32": 400}, "received": {"FP32": 400}},
    [],
    "LOWBIT",
)
HEAD = Calibrated(
    9,
    1.0,
    [
        {"name": n, "kind": k, "elements": 9, "route": r, "decode": "vote", "why": why}
        for n, k, r, why in (
            ("conv", "conv", "G_BINARY", "cosine 0.6 >= 0.45"),
            ("norm", "norm", "FP32", "no tensor of 1,024 elements"),
            ("head", "head", "FP32", "G_BINARY vote: cosine 0.000 < 0.45"),
        )
    ],
    verified=True,
    table={FP32: [95.0, 96.0, 97.0], "round 1": [94.0, 95.0, 96.0]},
)
PAIRS = {FP32: 96.0, BINARY: 24.0, GUIDED: 94.5, BAD: 44.0, BAD_MONITOR: 93.0}
CASES = [
    ("pairs100", PAIRS, {}, []),
    ("pairs100", PAIRS, {FP32: 94.9}, ["FP32 94.9"]),
    ("pairs100", PAIRS, {BINARY: 40.1}, [BINARY]),
    ("pairs100", PAIRS, {GUIDED: 93.9}, [GUIDED]),
    ("pairs100", PAIRS, {BAD_MONITOR: 91.9}, [BAD_MONITOR]),
    ("pairs100", PAIRS, {BAD: 60.1}, [BAD]),
    ("digits", {FP32: 90.0, GUIDED: 88.5}, {}, []),
    ("digits", {FP32: 90.0, GUIDED: 88.5}, {GUIDED: 88.4}, [GUIDED]),
    ("topics", {FP32: 73.0, BINARY: 53.0, GUIDED: 68.0}, {}, []),
    ("topics", {FP32: 73.0, BINARY: 53.0, GUIDED: 68.0}, {BINARY: 63.1}, [BINARY]),
    ("topics", {FP32: 73.0, BINARY: 53.0, GUIDED: 68.0}, {GUIDED: 67.9}, [GUIDED]),
    ("charlm", {FP32: 2.8, BINARY: 3.2, GUIDED: 2.829}, {}, ["FP32 set"]),
    ("charlm", {FP32: 2.8, BINARY: 3.2, GUIDED: 2.831}, {}, ["0.03 above", "FP32 set"]),
    ("charlm", {FP32: 2.8, BINARY: 2.9, GUIDED: 2.829}, {}, ["closes 71%", "FP32 set"]),
]


def found(check: str, values: dict[str, float], **words: Any) -> CheckFindings:
    rows = [replace(ROW, variant=name, seed=1, value=value) for name, value in values.items()]
    return CheckFindings(check, (1,), rows=rows, calibrated=HEAD, **words)


@pytest.mark.parametrize(("check", "values", "other", "wrong"), CASES)
def test_goals(check: str, values: dict[str, float], other: dict[str, float], wrong: Any) -> None:
    not_reached = [one.text for one in goals(found(check, {**values, **other})) if not one.reached]
    assert len(not_reached) == len(wrong)
    assert all(word in text for word, text in zip(wrong, not_reached, strict=True))


def test_the_set_in_fp32() -> None:
    """Regions that are too small for a route are not what the calibrator has found."""
    assert HEAD.full() == ["head"]
    other = replace(HEAD, regions=[{**one, "route": "FP32"} for one in HEAD.regions])
    wrong = found("pairs100", PAIRS)
    wrong.calibrated = other
    assert [one.text for one in goals(wrong) if not one.reached] == [
        "the calibrator's FP32 set is head: it is conv, head"
    ]


def test_a_profile_that_is_not_verified() -> None:
    """It misses a goal; one that nobody has tried to verify proves nothing."""
    for verified, mark, words in (
        (True, "ok", "verified"),
        (False, "missed", "not verified"),
        (None, "not run", "not verified"),
    ):
        one = found("digits", {FP32: 90.0, GUIDED: 90.0})
        one.calibrated = replace(HEAD, verified=verified)
        lines = lines_of(one, 96)
        assert f"  [{mark}] the calibrator's profile is verified" in lines
        assert f"  the calibrator's profile, of seed 9, {words}:" in lines
        assert missed(one, 96) == (verified is False)
        cells = next(x for x in lines if "round 1" in x).split()
        assert cells[2:] == ["94.0", "95.0", "96.0", "95.0"]


def test_a_spike() -> None:
    decided = [[130, "", "LOWBIT", "FALLBACK", "loss_spike"], [180, "", "RECOVERY", "LOWBIT", "x"]]
    row = replace(ROW, variant=GUIDED, steps=300, value=95.0, decisions=decided)
    rows = [replace(ROW, value=96.0), row]
    good = CheckFindings("spike", (1,), rows=rows, calibrated=HEAD)
    assert all(one.reached for one in goals(good))
    for change in (
        {"decisions": [[146, *decided[0][1:]]]},
        {"decisions": [[119, *decided[0][1:]]]},
        {"decisions": [[130, "", "LOWBIT", "FALLBACK", "norm"]]},
        {"state": "FALLBACK"},
        {"value": 93.9},
    ):
        assert sum(not one.reached for one in goals(replace_row(good, change))) == 1


def replace_row(of: CheckFindings, change: dict[str, Any]) -> CheckFindings:
    return replace(of, rows=[of.rows[0], replace(of.rows[1], **change)])


@pytest.mark.parametrize(
    ("closed", "less", "wrong"), [(3, 0.0, []), (0, 0.0, ["0 to 0 rounds"]), (3, 1.1, [LATE])]
)
def test_late_ranks(closed: int, less: float, wrong: list[str]) -> None:
    """Check that a training closes rounds, and is at most 1 % below one without late ranks."""
    seeds = tuple(range(1, 6))
    rows = [
        replace(ROW, variant=name, seed=seed, value=value, closed=closed)
        for seed in seeds
        for name, value in ((FED, 90.0), (LATE, 90.0 - less))
    ]
    missing = [
        one.text for one in goals(CheckFindings("digits", seeds, rows)) if one.reached is False
    ]
    assert len(missing) == len(wrong)
    assert all(word in text for word, text in zip(wrong, missing, strict=True))


def test_two_reducers() -> None:
    """Each variant is compared with itself; one that has sent no votes proves nothing."""
    sent = {"FP32": 900, "G_BINARY": 1234}
    rows = [
        replace(ROW, variant=variant, reducer=one, sent=sent)
        for variant in (GUIDED, BINARY)
        for one in ("rtl (x)", "torch")
    ]
    both = goals(CheckFindings("digits", (1,), rows=[ROW, *rows]))[-2:]
    assert [one.reached for one in both] == [True, True]
    assert all("by rtl (x) and torch; 1,234 bytes low-bit" in one.text for one in both)
    rows[3] = replace(rows[3], weights="other")
    wrong = CheckFindings("digits", (1,), rows=[ROW, *rows])
    assert [one.reached for one in goals(wrong)[-2:]] == [True, False]
    assert missed(wrong, 30)
    silent = [replace(one, sent={"FP32": 900}) for one in rows[:2]]
    assert goals(CheckFindings("digits", (1,), rows=[ROW, *silent]))[-1].reached is None


def test_ranks_that_differ() -> None:
    wrong = found("digits", {FP32: 90.0, GUIDED: 90.0})
    wrong.rows[0] = replace(wrong.rows[0], ranks_differ=1)
    assert goals(wrong)[0] == TrainingGoal(
        "weights equal on all ranks: 1 trainings differ", False, True
    )
    assert missed(wrong, 30)


def test_a_short_training_is_not_judged() -> None:
    poor = found("digits", {FP32: 90.0, GUIDED: 10.0})
    assert missed(poor, 96)
    assert not missed(poor, 30)
    assert "  [missed] guided by the calibrator 10.0" in "\n".join(lines_of(poor, 96))
    assert "[not judged, 30 of 96 steps]" in "\n".join(lines_of(poor, 30))
    assert "[not run] G_BINARY" in "\n".join(lines_of(found("topics", {FP32: 1.0}), 700))


def test_bytes() -> None:
    low = {"FP32": 100, "G_BINARY": 10}
    row = replace(
        ROW,
        variant=GUIDED,
        sent={"FP32": 500, "G_BINARY": 40},
        received={"FP32": 500, "G_BINARY": 60},
        tail={"steps": 40, "sent": low, "received": {"FP32": 100, "G_BINARY": 30}},
    )
    lines = [line.split() for line in lines_of(CheckFindings("digits", (1,), rows=[ROW, row]), 96)]
    assert [*GUIDED.split(), "G_BINARY", "0", "1"] in lines
    shares = next(line for line in lines if line[:2] == ["of", "FP32"])
    assert shares[2:4] == ["30.0%", "27.5%"]


FIVE = (90.0, 91.0, 92.0, 93.0, 94.0)


def auto_findings(check: str, values: Sequence[float], **change: Any) -> CheckFindings:
    """Return trainings in FP32 with the values `FIVE`, and by "auto" with ``values``."""
    tail = {"steps": 40, "sent": {"FP32": 240}, "received": {"FP32": 240}}
    rows = [replace(ROW, seed=n, value=value) for n, value in enumerate(FIVE)]
    rows += [
        replace(ROW, **{"variant": AUTO, "seed": n, "value": value, "tail": tail, **change})
        for n, value in enumerate(values)
    ]
    return CheckFindings(check, tuple(range(5)), rows=rows)


@pytest.mark.parametrize(
    ("check", "values", "change", "reached"),
    [
        ("digits", FIVE, {}, [True, True, True]),
        ("digits", [one - 0.9 for one in FIVE], {}, [True, True, True]),
        ("digits", [one - 0.93 for one in FIVE], {}, [True, True, False]),
        ("digits", [89.0, 91.0, 92.0, 93.0, 95.0], {}, [True, True, True]),
        ("digits", [88.0, 91.0, 92.0, 93.0, 96.0], {}, [True, True, False]),  # too wide
        ("digits", [one + 9 for one in FIVE], {}, [True, True, True]),
        ("charlm", [one + 9 for one in FIVE], {}, [True, True, False]),
        ("gpt", [one - 9 for one in FIVE], {}, [True, True, True]),
        ("digits", FIVE[:4], {}, [True, True, None]),
        ("digits", [math.nan, *FIVE[1:]], {}, [False, True, False]),
        ("digits", FIVE, {"state": "LOCKED_FP32"}, [False, True, True]),
        ("digits", FIVE, {"tail": ROW.tail}, [True, False, True]),
    ],
)
def test_auto_is_judged_by_paired_intervals(
    check: str, values: Sequence[float], change: dict[str, Any], reached: list[bool | None]
) -> None:
    judged = [one for one in goals(auto_findings(check, values, **change)) if AUTO in one.text]
    assert [one.reached for one in judged] == reached


@pytest.mark.parametrize(
    ("sent", "values", "base", "reached"),
    [
        (90, FIVE, AUTO, [True, True]),
        (100, FIVE, AUTO, [False, True]),
        (90, [one - 2 for one in FIVE], AUTO, [True, False]),
        (20, FIVE, TERNARY, [True, True]),
        (40, FIVE, TERNARY, [False, True]),
    ],
)
def test_adaptive_is_judged_by_the_best_single_assignment(
    sent: int, values: Sequence[float], base: str, reached: list[bool]
) -> None:
    """Check that G_TERNARY, with less traffic than "auto", is the base where it is near FP32."""
    found = auto_findings("pairs100", FIVE, sent={"FP32": 100}, received={})
    for variant, own, size in ((ADAPTIVE, values, sent), (TERNARY, FIVE, 30)):
        off = 50 if variant == TERNARY != base else 0
        found.rows += [
            replace(ROW, variant=variant, seed=n, value=one - off, sent={"FP32": size}, received={})
            for n, one in enumerate(own)
        ]
    judged = [one for one in goals(found) if one.text.startswith(ADAPTIVE)]
    assert [one.reached for one in judged] == reached
    assert f"of the bytes of {base}," in judged[0].text
    assert judged[1].text.startswith(f"{ADAPTIVE} - {base}:")


def test_auto_without_fp32_is_not_judged() -> None:
    found = auto_findings("digits", FIVE)
    found.rows[:] = found.of(AUTO, range(5))
    judged = [one for one in goals(found) if one.text.startswith(AUTO)]
    assert [one.reached for one in judged] == [None, None, None]

# SPDX-License-Identifier: Apache-2.0
"""Tests that the documents state the accepted figures: docs/measurements.md, hdl/README.md."""

from __future__ import annotations

import re

from scripts.common.paths import ROOT
from scripts.figures import baseline
from scripts.figures.timing_figure import LATENCY, LOW_BIT, PLAIN

ACCEPTED = baseline.read()["timing"]
MEASUREMENTS = (ROOT / "docs/measurements.md").read_text(encoding="utf-8")


def rows(head: str) -> dict[str, list[str]]:
    """Return the cells of the table whose head begins so, by the first cell of each row."""
    table = MEASUREMENTS[MEASUREMENTS.index(f"| {head} |") :].partition("\n\n")[0].splitlines()[2:]
    cells = [line.strip("| ").split(" | ") for line in table]
    return {name: others for name, *others in cells}


def alone(access: str) -> tuple[str, str]:
    """Return clocks over plain memory and exposed overhead as texts, one access at a time.

    They must be equal in every low-bit mode.
    """
    kind = f"{access}, one at a time at {LATENCY}: clocks"
    [over] = {ACCEPTED[f"{name}, {kind} over plain memory"] for name in LOW_BIT}
    return f"{over:g}", f"{100 * over / ACCEPTED[f'{PLAIN}, {kind}']:.2f} %"


def test_one_at_a_time() -> None:
    table = rows("access")
    assert table == {access: [*alone(access)] for access in table}
    assert len(table) == 5


def test_full_credits() -> None:
    """Check the table of clocks with full credits: plain memory, low-bit modes, FP32.

    The low-bit modes have equal values, and FP32 sums are not measured.
    """
    table = rows("clocks an access")
    for place, said in table.items():
        kind = f"{place} at {LATENCY}: clocks an access"
        [low_bit] = {ACCEPTED[f"{name}, {kind}"] for name in LOW_BIT}
        values = ACCEPTED[f"{PLAIN}, {kind}"], low_bit, ACCEPTED.get(f"FP32, {kind}")
        assert said == ["-" if value is None else f"{value:.3f}" for value in values], place
    assert table


def test_design_notes() -> None:
    """Check that the text of hdl/README.md on misses has the accepted clocks."""
    text = " ".join((ROOT / "hdl/README.md").read_text(encoding="utf-8").split())
    number = r"(\d+ \(\d+\.\d+ %\))"
    [said] = re.findall(
        f"At {LATENCY} clocks that is {number} for the second worker of 8, {number} for the last, "
        f"{number} for the last of 64, and {number} and {number} for a read of the result",
        text,
    )
    writes = ("second of 8 workers", "last of 8 workers", "last of 64 workers")
    reads = ("8 workers", "64 workers")
    expected = [alone(f"contribution, {one}") for one in writes]
    expected += [alone(f"result read, {one}") for one in reads]
    assert list(said) == [f"{clocks} ({percent})" for clocks, percent in expected]
    [rates] = re.findall(r"([\d.]+) over 1,024 lines \(([\d.]+)\)", text)
    kind = f"second worker, all misses, full credits, x16 at {LATENCY}: clocks an access"
    assert list(rates) == [f"{ACCEPTED[f'{name}, {kind}']:.3f}" for name in ("G_BINARY", PLAIN)]


NETWORK = "ResNet-18 (CIFAR stem, 10 classes)"
BOTH = "head in FP32: payload both ways, % of FP32"
UP = "head in FP32: payload-only, one-way (up), % of FP32"
SENTENCES = re.compile(
    r"payload both ways, in percent of FP32 through the same device, 8 workers, head in FP32 "
    r"\(ResNet-18 for CIFAR-10\): (.+?)\. Payload-only, one-way \(up\)[^:]*: (.+?\d)\. "
)
"""Return the clauses after each colon: a mode, then numbers, each after its view, if any."""


def said(clauses: str, way: str) -> dict[str, str]:
    """Return the numbers in a sentence of the document by their names in the baseline."""
    out = {}
    for clause in clauses.split("; "):
        mode = clause.split()[0]
        for view, number in re.findall(r"(?:(vote|planes|SUM8|SUM16) )?(\d+\.\d+)", clause):
            what = f"{mode} {view}".rstrip()
            out[f"{NETWORK}, {what}, {way}"] = number
    return out


def test_traffic() -> None:
    """Check all followed figures of one network, with two decimal digits, and nothing else."""
    [(both, up)] = SENTENCES.findall(" ".join(MEASUREMENTS.split()))
    accepted = baseline.read()["traffic"]
    assert said(both, BOTH) | said(up, UP) == {
        name: f"{value:.2f}" for name, value in accepted.items() if name.startswith(f"{NETWORK}, ")
    }


def test_collectives() -> None:
    """Check the table of collectives of 8 ranks against the accepted clocks."""
    accepted = baseline.read()["collectives"]
    table = rows("collective")
    for kind, said in table.items():
        unit = "clocks" if kind == "barrier" else "clocks a line"
        places = [(at, n) for at in (48, 300) for n in ("1 device", "2 devices")]
        values = [accepted[f"{kind}, 8 ranks, {n} at {at}: {unit}"] for at, n in places]
        assert said == [f"{value:.2f}" for value in values], kind
    assert len(table) == 7

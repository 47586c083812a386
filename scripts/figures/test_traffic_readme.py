# SPDX-License-Identifier: Apache-2.0
"""Test that docs/measurements.md states the accepted traffic figures."""

from __future__ import annotations

import re

from scripts.common.paths import ROOT
from scripts.figures import baseline

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


def test_readme_says_what_was_accepted() -> None:
    """Check all followed figures of one network, with two decimal digits, and nothing else."""
    text = " ".join((ROOT / "docs/measurements.md").read_text(encoding="utf-8").split())
    [(both, up)] = SENTENCES.findall(text)
    accepted = baseline.read()["traffic"]
    assert said(both, BOTH) | said(up, UP) == {
        name: f"{value:.2f}" for name, value in accepted.items() if name.startswith(f"{NETWORK}, ")
    }

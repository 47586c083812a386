# SPDX-License-Identifier: Apache-2.0
"""Baseline of figures: accepted values, and detection of values worse by more than 5 %.

`baseline.json` contains the followed figures of each result by name; `nf measure figures WHAT
--accept` rewrites it, and `accepted.json`, which names commit and date of each measurement. Less is
better, except for rates: figures whose name ends in "MHz".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from neuron_fabric import output
from scripts.common import data
from scripts.figures.result_file import FigureResult

FILE = Path(__file__).with_name("baseline.json")
SLIP = 0.05
_ORIGIN = "accepted.json"

Baseline = dict[str, dict[str, float]]


def read() -> Baseline:
    """Return the accepted values by result and name of figure; NfError if the file is damaged."""
    return data.load_json(FILE, Baseline)


def origin() -> dict[str, dict[str, str]]:
    """Return commit and date of the accepted measurement of each result. Raise NfError if the file
    is damaged."""
    file = FILE.with_name(_ORIGIN)
    return data.load_json(file, dict[str, dict[str, str]]) if file.exists() else {}


def accept(result: FigureResult) -> None:
    """Store the followed figures of a result as the new baseline.

    Figures that it has not measured keep their values.
    """
    known = read() if FILE.exists() else {}
    known[result.figure] = {**known.get(result.figure, {}), **result.followed}
    whole = {
        figure: {
            name: int(value) if float(value).is_integer() else value
            for name, value in followed.items()
        }
        for figure, followed in known.items()
    }
    output.write_text(FILE, json.dumps(whole, indent=1, sort_keys=True) + "\n")
    measured = {"commit": result.revision, "date": result.started[:10]}
    text = json.dumps({**origin(), result.figure: measured}, indent=1, sort_keys=True)
    output.write_text(FILE.with_name(_ORIGIN), text + "\n")


def slipped(
    followed: Mapping[str, float], accepted: Mapping[str, float], whole: bool = False
) -> list[str]:
    """Return a line for each figure that is worse than accepted by more than SLIP (5 %).

    A figure without an accepted value also gives a line.

    Args:
        followed: Measured values by name.
        accepted: Accepted values by name.
        whole: Whether an accepted figure that was not measured gives a line, too.
    """
    out = []
    for name, value in followed.items():
        if name not in accepted:
            out.append(f"{name}: {value:g}, no value was accepted yet (--accept)")
            continue
        base = accepted[name]
        worse = base - value if name.endswith("MHz") else value - base
        if worse > SLIP * abs(base):
            out.append(f"{name}: {value:g}, accepted {base:g}")
    if whole:
        out += [f"{name}: not measured" for name in accepted if name not in followed]
    return out

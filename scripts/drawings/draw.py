# SPDX-License-Identifier: Apache-2.0
"""Drawings and plots of the documents, and the rules of the front page.

    python -m scripts.drawings.draw            write the drawings
    python -m scripts.drawings.draw --check    check them and the length of README.md

Every drawing is made from the sources, from captured gradients, from a run of the models, or from
accepted figures. `nf check` runs the second command.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.errors import say
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.drawings import bits, boxes, front, pipeline, plots, runs, state_machines
from scripts.drawings.sheet import Sheet

COMMAND = "python -m scripts.drawings.draw"
README_LINES = 200
FRONT = "docs/front.svg"
LARGEST = 60_000
"""Bytes of a drawing, at most."""
SHEETS: dict[str, Callable[[], Sheet]] = {
    FRONT: front.front,
    "docs/architecture.svg": partial(boxes.draw, "architecture"),
    "docs/line-formats.svg": bits.line_formats,
    "docs/explain/training.svg": partial(boxes.draw, "training"),
    "docs/explain/pipeline.svg": pipeline.draw,
    "docs/explain/flit.svg": bits.flit,
    "docs/explain/headers.svg": bits.headers,
    "docs/explain/slots.svg": bits.slot_formats,
    "docs/explain/control-flits.svg": bits.control_flits,
    "docs/explain/record.svg": bits.record,
    "docs/explain/registers.svg": bits.registers,
    "docs/explain/region-registers.svg": bits.region_registers,
    "docs/explain/retry.svg": runs.retry_sequence,
    "docs/explain/epochs.svg": runs.epochs,
    "docs/explain/races.svg": runs.linearize,
    "docs/explain/ordered-sum.svg": runs.ordered,
    **{
        f"docs/explain/{name}.svg": partial(state_machines.draw, name)
        for name in state_machines.MACHINES
    },
}
DRAWINGS: dict[str, Callable[[], str]] = {
    **{name: lambda make=make: make().svg() for name, make in SHEETS.items()},  # type: ignore[misc]
    **{f"docs/figures/{name}.svg": partial(plots.draw, name) for name in plots.PLOTS},
}


def problems(root: Path = ROOT, drawings: Mapping[str, Callable[[], str]] = DRAWINGS) -> list[str]:
    """Return a line for each rule of the front page that is broken and each stale drawing."""
    lines = (root / "README.md").read_text(encoding="utf-8").splitlines()
    out = []
    if len(lines) > README_LINES:
        out.append(f"README.md has {len(lines)} lines: move some to docs/ (at most {README_LINES})")
    if not any(f"({FRONT})" in line for line in lines[:20]):
        out.append(f"README.md does not show {FRONT} in its first 20 lines")
    for name, draw in drawings.items():
        file = root / name
        try:
            text = draw()
        except NfError as error:
            out.append(f"{name} cannot be drawn: {error}")
            continue
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            out.append(f"{name} is stale: run `{COMMAND}`")
        if len(text) > LARGEST:
            out.append(f"{name} has {len(text):,} bytes: draw less (at most {LARGEST:,})")
    return out


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        say(*(found := problems()))
        sys.exit(bool(found))
    for name, draw in DRAWINGS.items():
        output.write_text(ROOT / name, draw())
        say(f"wrote {name}")

# SPDX-License-Identifier: Apache-2.0
"""`nf figures timing`: what each mode costs over plain memory, in clocks of the RTL, from one
access at a time to full credits."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from neuron_fabric.text import telling
from scripts.build import bulk_build, registry
from scripts.common.errors import OptionError
from scripts.figures import timing_alone, timing_curves, timing_loaded, timing_pressure
from scripts.figures.result_file import Measured
from scripts.figures.timing_bench import Bench, Found, Part
from scripts.figures.timing_loads import SLOTS
from verif.host.bulk_device import VerilatedModel

HELP = "clocks that each mode adds to plain memory, over latency, load, working set, tile and skew"
PARTS: dict[str, Part] = {
    "one at a time": timing_alone.one_at_a_time,
    "latency": timing_alone.over_latency,
    "load": timing_curves.over_load,
    "stages under load": timing_loaded.stages_under_load,
    "working set": timing_curves.over_working_set,
    "tile and skew": timing_curves.over_tile_and_skew,
    "bandwidth": timing_pressure.under_pressure,
}
"""What is measured, in this order."""


def _simulator() -> str:
    """The one that gives a library to call, whose clocks are counted here; NfError."""
    name = next(one.name for one in registry.simulators() if one.links_c)
    return registry.choose(name)[0][0]


def _memory() -> str:
    """Of every part, and the others under bandwidth pressure."""
    usual, *others = sorted({case.beat for case in timing_pressure.CASES})
    return (
        f"every request is answered after its latency, in order; a beat takes {usual} clock each "
        f"way, under bandwidth pressure also {', '.join(map(str, others))} clocks"
    )


def _link() -> str:
    """The same of the link."""
    (name, usual), *others = timing_pressure.LINKS.items()
    narrow = ", ".join(f"{clocks} clocks ({other})" for other, clocks in others)
    return f"a flit takes {usual} clock each way ({name}), under bandwidth pressure also {narrow}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(PARTS)
    parser.add_argument("--only", default="", metavar="TEXT", help=f"parts with it: {names}")


def run(args: argparse.Namespace) -> Measured:
    """Build, drive every part, and what came of it."""
    parts = {name: part for name, part in PARTS.items() if args.only in name}
    if not parts:
        raise OptionError(f"--only {args.only!r}", "no part's name has that", "see --help")
    with telling("nf figures: building the design with its stage probe"):
        model = bulk_build.build(_simulator(), stages=True)
    assert isinstance(model, VerilatedModel)
    found = Found()
    with tempfile.TemporaryDirectory(prefix="nf-figures-") as folder:
        bench = Bench(model, Path(folder))
        for name, part in parts.items():
            with telling(f"nf figures: {name}"):
                part(bench, found)
    return Measured(
        set_up=(
            ("device", f"nf_controller with its default parameters, {SLOTS} slots; Verilator"),
            ("stimulus", "the same lines in the same order for every mode, at flit level"),
            ("memory", _memory()),
            ("clocks of an access", "from the flit with the request to that with the response"),
            ("exposed overhead", "(T - T_plain) / T_plain, T from first request to last answer"),
            ("link", _link()),
        ),
        tables=tuple(found.tables),
        plots=tuple(found.plots),
        left_out=(
            "banks of the memory: its model has latency, bandwidth and stalls, but no banks",
            "the record initialiser: `nf bench misses` measures plain reads beside it",
        ),
        followed=found.followed,
    )

# SPDX-License-Identifier: Apache-2.0
"""`nf measure synth`: checks that the RTL elaborates and maps to cells (yosys, read_slang).

`nf measure figures synth` compares areas and breaks them down by module.

examples:
  nf measure synth                                   the default build
"""

from __future__ import annotations

import argparse

from neuron_fabric.errors import say
from scripts.build import yosys
from scripts.plan import testplan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--build", default="default", help="named parameter set")
    parser.add_argument("--top", help="another module of the design instead of its top")


def run(args: argparse.Namespace) -> int:
    build = testplan.read().build(args.build)
    top = args.top or build.top
    try:
        found = yosys.synthesize(
            *(top, build.filelist, "generic"),
            name=f"{top}-{args.build}",
            parameters=() if args.top else build.parameters,
        )
    except yosys.SynthesisFailed as error:
        say(f"nf measure synth: {error}")
        return 1
    cells = found.cells()
    say(
        f"nf measure synth: {top} elaborates and maps: {cells.total()} cells, "
        f"{yosys.flip_flops(cells)} flip-flops, {cells['$mem_v2']} memories "
        f"in {found.seconds:.0f} s (generic)"
    )
    return 0

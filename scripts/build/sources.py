# SPDX-License-Identifier: Apache-2.0
"""Sources of a build: edits, modified copies, and the content hash that names the build."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.build import registry, twins
from scripts.build.filelist import FileList, read_filelist, read_source
from scripts.build.simulator import Simulator
from scripts.common.errors import NfError
from scripts.common.paths import VARIANTS
from scripts.common.records import FILELIST, TOP, BuildSpec, Dut, Edit


def apply_edits(texts: dict[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """Return the texts (by path) after all edits.

    Raises:
        NfError: The file of an edit is missing, or its old text does not occur exactly once.
    """
    out = dict(texts)
    for edit in edits:
        if edit.file not in out:
            raise NfError(f"edit of {edit.file}: the file is not part of the design.")
        count = out[edit.file].count(edit.old)
        if count != 1:
            raise NfError(
                f"edit of {edit.file}: the text to replace occurs {count} times, not once: "
                f"{edit.old.strip()[:60]!r}"
            )
        out[edit.file] = out[edit.file].replace(edit.old, edit.new)
    return out


@dataclass(frozen=True)
class Sources:
    """The texts that a build compiles, after edits, and the key of the build.

    Attributes:
        files: File list of the design.
        texts: Text by path; also the MyHDL twins from which modules were converted.
        key: Hash of texts, options and tools, 16 hex digits.
    """

    files: FileList
    texts: dict[str, str]
    key: str


def collect(spec: BuildSpec, bound: bool = True) -> Sources:
    """Read all sources of a spec, apply its edits, and compute the key of the build.

    Args:
        spec: Design to compile.
        bound: Whether to add the modules that count coverage, which are bound into the design.

    Raises:
        NfError: A source cannot be read, or an edit does not match.
    """
    files = read_filelist(spec.root, spec.filelist)
    if bound:
        files = files.with_bound(registry.get(spec.sim).bound, spec.root)
    texts = texts_of(spec, files)
    facts = {
        "tool": registry.get(spec.sim).identity(),
        "top": spec.top,
        "root": str(spec.root),
        "parameters": sorted(spec.parameters),
        "defines": sorted(spec.defines),
        "public": sorted(spec.public),
        "waves": spec.waves,
        "coverage": spec.coverage,
        "opt": spec.opt,
        "order": list(texts),
        "includes": files.includes,
        **({"variant": spec.variant} if spec.variant else {}),
        **({"dut": spec.dut} if spec.dut is not Dut.RTL else {}),
        "runner": _own_text(spec.sim),
    }
    return Sources(files, texts, _digest(json.dumps(facts, sort_keys=True), texts))


def design_key(edits: Sequence[Edit] = (), dut: Dut = Dut.RTL) -> str:
    """Return a hash of the text of the controller, 16 hex digits.

    It is equal in every checkout and for every tool, unlike the key of a build. It raises NfError
    as `collect` does.
    """
    spec = BuildSpec("", TOP, FILELIST, edits=tuple(edits), dut=dut)
    return _digest("", texts_of(spec, read_filelist(spec.root, spec.filelist)))


def texts_of(spec: BuildSpec, files: FileList) -> dict[str, str]:
    """Return the texts of a design by path: of its variant, edited, with the MyHDL twins it has.

    Raises:
        NfError: A source cannot be read, or an edit does not match.
    """
    names = [*files.sources, *files.headers(spec.root), *files.control]
    switched = VARIANTS / spec.variant if spec.variant else None
    texts = {}
    for name in names:
        root = switched if switched and (switched / name).is_file() else spec.root
        texts[name] = read_source(root / name, name)
    if spec.dut is Dut.RTL:
        return apply_edits(texts, spec.edits)
    texts = apply_edits({**texts, **twins.sources(spec.root)}, spec.edits)
    return {**texts, **twins.placed(texts, spec.dut, dict(spec.parameters))}


def _digest(start: str, texts: Mapping[str, str]) -> str:
    digest = hashlib.sha256(start.encode())
    for name, text in texts.items():
        digest.update(f"\0{name}\0".encode())
        digest.update(text.encode())
    return digest.hexdigest()[:16]


def _own_text(sim: str) -> str:
    """Return a hash of the code that makes the compile commands of a simulator.

    A change of this code changes the key of the build.
    """
    digest = hashlib.sha256()
    simulator = registry.get(sim)
    places = [Path(inspect.getfile(one)) for one in (simulator, Simulator)]
    for path in (*places, *simulator.texts):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def write_copy(sources: Sources, target: Path) -> None:
    """Write the texts of a design, after edits, below `target`, with the paths of the tree."""
    for name, text in sources.texts.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

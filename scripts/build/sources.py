# SPDX-License-Identifier: Apache-2.0
"""File lists, source edits and the content hash that names a build."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from neuron_fabric.data import DataError, read_text
from scripts.build import toolchain
from scripts.common.errors import NfError
from scripts.common.records import BuildSpec, Edit

INCLUDED = ("*.svh", "*.vh")


@dataclass(frozen=True)
class FileList:
    """Sources in compile order, include directories and control files, relative to the root."""

    sources: tuple[str, ...]
    includes: tuple[str, ...]
    control: tuple[str, ...] = ()

    def headers(self, root: Path) -> list[str]:
        """Every header that an `include` could reach."""
        found = {
            str(path.relative_to(root))
            for directory in self.includes
            for pattern in INCLUDED
            for path in (root / directory).glob(pattern)
        }
        return sorted(found)


def read_filelist(root: Path, filelist: str) -> FileList:
    """Read a file list: paths, `+incdir+DIR`, `-f OTHER`, comments with `//` or `#`."""
    path = root / filelist
    if not path.is_file():
        raise NfError(f"file list {filelist} does not exist.")
    sources: list[str] = []
    includes: list[str] = []
    control: list[str] = []
    for raw in _text(path, filelist).splitlines():
        line = raw.split("//")[0].split("#")[0].strip()
        if not line:
            continue
        if line.startswith("+incdir+"):
            includes.append(line.removeprefix("+incdir+"))
        elif line.startswith("-f "):
            nested = read_filelist(root, line.removeprefix("-f ").strip())
            sources += nested.sources
            includes += nested.includes
            control += nested.control
        elif line.startswith(("-", "+")):
            raise NfError(f"{filelist}: option {line!r} is not understood.")
        else:
            (control if line.endswith(".vlt") else sources).append(line)
    for entry in [*sources, *control]:
        if not (root / entry).is_file():
            raise NfError(f"{filelist} names {entry}, which does not exist.")
    return FileList(
        tuple(dict.fromkeys(sources)), tuple(dict.fromkeys(includes)), tuple(dict.fromkeys(control))
    )


def _text(path: Path, name: str) -> str:
    try:
        return read_text(path)
    except OSError as error:
        raise NfError(f"cannot read {name}: {error.strerror}.") from error
    except DataError as error:
        raise NfError(f"{name}: {error}.") from error


def apply_edits(texts: dict[str, str], edits: Sequence[Edit]) -> dict[str, str]:
    """Return `texts` (by path) with every edit applied. An edit that does not fit is an NfError."""
    out = dict(texts)
    for edit in edits:
        if edit.file not in out:
            raise NfError(f"edit of {edit.file}: the file is not part of the design.")
        count = out[edit.file].count(edit.old)
        if count != 1:
            raise NfError(
                f"edit of {edit.file}: the text to replace occurs {count} times, not once: "
                f"{edit.old.strip().splitlines()[0][:60]!r}"
            )
        out[edit.file] = out[edit.file].replace(edit.old, edit.new)
    return out


@dataclass(frozen=True)
class Sources:
    """The design text that a build compiles, after edits, and its key."""

    files: FileList
    texts: dict[str, str]
    key: str


def collect(spec: BuildSpec) -> Sources:
    """Read all sources of a spec, apply its edits, and compute the key of the build."""
    files = read_filelist(spec.root, spec.filelist)
    names = [*files.sources, *files.headers(spec.root), *files.control]
    texts = {name: _text(spec.root / name, name) for name in names}
    texts = apply_edits(texts, spec.edits)
    facts = {
        "tool": toolchain.identity(spec.sim),
        "top": spec.top,
        "root": str(spec.root),
        "parameters": sorted(spec.parameters),
        "defines": sorted(spec.defines),
        "public": sorted(spec.public),
        "waves": spec.waves,
        "coverage": spec.coverage,
        "opt": spec.opt,
        "order": names,
        "includes": files.includes,
        "runner": _own_text(),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    for name in names:
        digest.update(f"\0{name}\0".encode())
        digest.update(texts[name].encode())
    return Sources(files, texts, digest.hexdigest()[:16])


def _own_text() -> str:
    """The code that makes the compile commands: a change there is a change of the build."""
    return hashlib.sha256(Path(__file__).with_name("simulators.py").read_bytes()).hexdigest()


def write_copy(sources: Sources, target: Path) -> None:
    """Write the (edited) design below `target`, in its own layout."""
    for name, text in sources.texts.items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

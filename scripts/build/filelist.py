# SPDX-License-Identifier: Apache-2.0
"""Reads the file lists of designs (`hdl/*.f`)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from neuron_fabric.data import DataError, read_text
from scripts.common.errors import NfError

INCLUDED = ("*.svh", "*.vh")


@dataclass(frozen=True)
class FileList:
    """Sources in compile order, include directories and control files, relative to the root."""

    sources: tuple[str, ...]
    includes: tuple[str, ...]
    control: tuple[str, ...] = ()

    def with_bound(self, bound: Mapping[str, str], root: Path) -> FileList:
        """The same, with the files behind it that hold modules bound to those of its sources, and
        their folders, where they may have headers."""
        beside = [name for name, source in bound.items() if source in self.sources]
        found = [name for name in beside if (root / name).is_file()]
        folders = [str(Path(name).parent) for name in found]
        return replace(
            self,
            sources=(*self.sources, *found),
            includes=tuple(dict.fromkeys((*self.includes, *folders))),
        )

    def headers(self, root: Path) -> list[str]:
        """Every header that an `include` could reach."""
        found = {
            str(path.relative_to(root))
            for directory in self.includes
            for pattern in INCLUDED
            for path in (root / directory).glob(pattern)
        }
        return sorted(found)


def read_filelist(root: Path, filelist: str, above: tuple[str, ...] = ()) -> FileList:
    """Read a file list: paths, `+incdir+DIR`, `-f OTHER`, comments with `//` or `#`. `above` are
    the lists that include it."""
    path = root / filelist
    if not os.path.isfile(path):
        raise NfError(f"file list {filelist} does not exist.")
    if filelist in above:
        raise NfError(f"file list {filelist} includes itself.")
    sources: list[str] = []
    includes: list[str] = []
    control: list[str] = []
    for raw in read_source(path, filelist).splitlines():
        line = raw.split("//")[0].split("#")[0].strip()
        if not line:
            continue
        if line.startswith("+incdir+"):
            includes.append(line.removeprefix("+incdir+"))
        elif line.startswith("-f "):
            nested = read_filelist(root, line.removeprefix("-f ").strip(), (*above, filelist))
            sources += nested.sources
            includes += nested.includes
            control += nested.control
        elif line.startswith(("-", "+")):
            raise NfError(f"{filelist}: option {line!r} is not understood.")
        else:
            (control if line.endswith(".vlt") else sources).append(line)
    for entry in [*sources, *control]:
        if not os.path.isfile(root / entry):
            raise NfError(f"{filelist} names {entry}, which does not exist.")
    return FileList(
        tuple(dict.fromkeys(sources)), tuple(dict.fromkeys(includes)), tuple(dict.fromkeys(control))
    )


def read_source(path: Path, name: str) -> str:
    """Text of a source file; NfError with its `name` when it cannot be read."""
    try:
        return read_text(path)
    except OSError as error:
        raise NfError(f"cannot read {name}: {error.strerror}.") from error
    except DataError as error:
        raise NfError(f"{name}: {error}.") from error

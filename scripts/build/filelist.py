# SPDX-License-Identifier: Apache-2.0
"""Reader of file lists of designs (`hdl/*.f`) and of RTL sources."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from neuron_fabric.data import DataError, read_text
from scripts.common.errors import NfError

INCLUDED = ("*.svh", "*.vh")


@dataclass(frozen=True)
class FileList:
    """A parsed file list: sources in compile order, include directories and `.vlt` control files.

    Paths are relative to the root.
    """

    sources: tuple[str, ...]
    includes: tuple[str, ...]
    control: tuple[str, ...] = ()

    def with_bound(self, bound: Mapping[str, str], root: Path) -> FileList:
        """Return the list with bound modules appended, and their folders added to the includes.

        A bound module is added if it exists and the source of its target is in the list.

        Args:
            bound: Source of the target by source of the module that is bound to it.
            root: Root of the project.
        """
        bound_here = [name for name, source in bound.items() if source in self.sources]
        found = [name for name in bound_here if (root / name).is_file()]
        folders = [str(Path(name).parent) for name in found]
        return replace(
            self,
            sources=(*self.sources, *found),
            includes=tuple(dict.fromkeys((*self.includes, *folders))),
        )

    def headers(self, root: Path) -> list[str]:
        """Return all headers (`*.svh`, `*.vh`) in the include directories, relative to `root`."""
        found = {
            str(path.relative_to(root))
            for directory in self.includes
            for pattern in INCLUDED
            for path in (root / directory).glob(pattern)
        }
        return sorted(found)


def read_filelist(root: Path, filelist: str, above: tuple[str, ...] = ()) -> FileList:
    """Read a file list: paths, `+incdir+DIR`, `-f OTHER`, comments with `//` or `#`.

    Args:
        root: Root of the project, to which all paths are relative.
        filelist: Path of the list.
        above: Lists that include this one, to detect a cycle.

    Raises:
        NfError: A list or a file in it does not exist, or an option is unknown.
    """
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
    """Return the text of a source file; NfError with its `name` if it cannot be read."""
    try:
        return read_text(path)
    except OSError as error:
        raise NfError(f"cannot read {name}: {error.strerror}.") from error
    except DataError as error:
        raise NfError(f"{name}: {error}.") from error


def no_design(lines: Iterable[str]) -> frozenset[int]:
    """Return the numbers, from 1, of the lines of an RTL source that describe no hardware.

    These are texts for waves (`NF_WAVE_NAME`) and signals for assertions alone (between `ifdef
    NF_CHECKED and its `endif).
    """
    out, nested = set(), 0
    for number, text in enumerate(lines, 1):
        word = text.split(maxsplit=1)[0] if text.strip() else ""
        if nested or text.startswith("`ifdef NF_CHECKED"):
            nested += word.startswith(("`ifdef", "`ifndef")) - (word == "`endif")
        if nested or "`NF_WAVE_NAME(" in text:
            out.add(number)
    return frozenset(out)

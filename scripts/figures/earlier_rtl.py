# SPDX-License-Identifier: Apache-2.0
"""RTL of an earlier commit, unpacked so that today's tools measure an old design in the same run.

It is unpacked below the folder of synthesis: yosys (WebAssembly) sees the repository alone.
"""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path

from neuron_fabric import output
from scripts.build.filelist import read_filelist
from scripts.build.yosys import FOLDER
from scripts.common import git
from scripts.common.errors import NfError
from scripts.common.paths import ROOT, shown
from scripts.common.records import FILELIST

_RTL = "hdl"
_SHORT = 12


class NotHere(NfError):
    """Error: this clone does not have a commit."""


def path_at(commit: str, path: str) -> str:
    """Return the path, from the root, to which a file of a commit is unpacked."""
    return f"{shown(FOLDER)}/at-{commit[:_SHORT]}/{path}"


def filelist_at(commit: str) -> str:
    """Unpack the RTL of an earlier commit, write a file list of the copies, and return its path.

    Raises:
        NotHere: The commit is missing (a shallow clone, or no repository).
    """
    place = ROOT / path_at(commit, "")
    if not place.is_dir():
        unpack(commit, place, _RTL)
    files = read_filelist(place, FILELIST)
    lines = [f"+incdir+{path_at(commit, one)}" for one in files.includes]
    lines += [path_at(commit, one) for one in files.sources]
    listed = path_at(commit, "nf_controller.f")
    output.write_text(ROOT / listed, "\n".join(lines) + "\n")
    return listed


def unpack(commit: str, place: Path, *paths: str) -> None:
    """Unpack files of a commit (all, or below ``paths``) into the folder ``place``.

    The folder becomes complete or stays absent.

    Raises:
        NotHere: The commit is missing.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:  # all of it, or nothing
        archive, new = Path(folder, "files.tar"), Path(folder, "new")
        try:
            git.text("archive", f"--output={archive}", commit, *paths, root=ROOT)
        except git.GitError as error:
            missing = f"commit {commit[:_SHORT]} is not in this clone (git fetch --unshallow)"
            raise NotHere(f"{missing}: {error}") from error
        with tarfile.open(archive) as files:
            if hasattr(tarfile, "data_filter"):  # Python 3.11.4 and later
                files.extractall(new, filter="data")
            else:
                files.extractall(new)  # from git
        try:
            new.rename(place)
        except OSError:
            if not place.is_dir():  # another command was faster
                raise

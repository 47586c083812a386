# SPDX-License-Identifier: Apache-2.0
"""Files of an earlier commit, unpacked so that today's tools measure an old design in the same run.

The RTL is unpacked below the folder of synthesis: yosys (WebAssembly) sees the repository alone.
"""

from __future__ import annotations

import shutil
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
    """Error: this clone does not hold a commit."""


def path_at(commit: str, path: str) -> str:
    """Return the path, from the root, to which a file of a commit is unpacked."""
    return f"{shown(FOLDER)}/at-{commit[:_SHORT]}/{path}"


def filelist(commit: str) -> str:
    """Write the controller's file list of a commit, which names the unpacked copies, and return its
    path.

    Raises:
        NotHere: the commit is missing (a shallow clone, or no repository).
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
    """Unpack files of a commit (all, or below ``paths``) into a folder that is complete or
    absent; NotHere."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:  # all of it, or nothing
        archive, new = Path(folder, "files.tar"), Path(folder, "new")
        try:
            git.text("archive", f"--output={archive}", commit, *paths, root=ROOT)
        except git.GitError as error:
            missing = f"commit {commit[:_SHORT]} is not in this clone (git fetch --unshallow)"
            raise NotHere(f"{missing}: {error}") from error
        shutil.unpack_archive(archive, new)
        try:
            new.rename(place)
        except OSError:
            if not place.is_dir():  # another command was faster
                raise

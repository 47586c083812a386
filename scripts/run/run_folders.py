# SPDX-License-Identifier: Apache-2.0
"""Folders of runs: a run empties its own; its inputs and the evidence of failures are kept.

An input file in the folder is copied to `build/inputs`, under a name made from its content, and
read from there, so that a printed command works however often it is pasted. The folder of a failed
run is moved to `build/red`, where the next failed run of the same name replaces it if it holds as
much evidence.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from neuron_fabric import output
from neuron_fabric.data import DataError, read_bytes, read_object
from scripts.common import paths
from scripts.common.errors import NfError
from scripts.common.records import RunSpec

INPUTS, RED = "inputs", "red"  # below the build folder
_SHOWS = ("waves", "scenario-", "reduced-", "stimulus")  # names of files
_EVIDENCE = "stimulus.json"  # of a proof or a bulk replay, only when it failed


def store(path: Path) -> Path:
    """Copy a file to `build/inputs`, where only `nf clean --all` deletes it, and return the copy.

    Raises:
        OSError: It cannot be read or written.
        DataError: It is too large.
    """
    folder = (paths.BUILD / INPUTS).resolve()
    if path.resolve().parent == folder:
        return path.resolve()
    data = read_bytes(path)
    kept = folder / f"{hashlib.sha256(data).hexdigest()[:8]}-{path.name}"
    folder.mkdir(parents=True, exist_ok=True)
    output.write_bytes(kept, data)
    return kept


def kept(path: Path) -> Path:
    """Return a copy as `store` does, or the file itself if no copy can be made."""
    with suppress(OSError, DataError):
        return store(path)
    return path


def detached(spec: RunSpec, folder: Path) -> RunSpec:
    """Return a run whose input files (in variables) do not lie in its own folder, which it empties.

    Each such file is replaced by a copy made by `store`.
    """

    def moved(value: str) -> str:
        inside = os.path.isfile(value) and Path(value).resolve().is_relative_to(folder.resolve())
        return str(store(Path(value))) if inside else value

    return replace(spec, env=tuple((name, moved(value)) for name, value in spec.env))


def refuse(path: str | Path, folder: Path) -> None:
    """Raise NfError if an input of a command lies in a folder that it is about to empty."""
    if Path(path).resolve().is_relative_to(folder.resolve()):
        where = paths.shown(folder.resolve())
        raise NfError(f"{path} lies in {where}, which this command empties; copy it elsewhere.")


def empty(folder: Path) -> None:
    """Create the folder of a run, or empty it.

    Evidence of a failed run in it is moved to `build/red`, unless it has fewer kinds of files than
    the evidence there (`nf rerun` writes no waves).
    """
    aside = paths.BUILD / RED / folder.name
    if _is_red(folder) and not _shown_by(folder) < _shown_by(aside):
        with suppress(OSError):  # what cannot be moved is removed
            shutil.rmtree(aside, ignore_errors=True)
            aside.parent.mkdir(parents=True, exist_ok=True)
            folder.rename(aside)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


def _shown_by(folder: Path) -> set[str]:
    """Return the names of the files in a folder that show a failure: waves, scenarios, stimuli."""
    return {path.name for path in folder.glob("*.*") if path.stem.startswith(_SHOWS)}


def _is_red(folder: Path) -> bool:
    """Return whether a folder holds evidence of a failed run of a user.

    A run of a mutant is expected to fail, so it is no evidence; a rerun for waves lies in the
    folder of its run.
    """
    if folder.parent.parent not in (paths.BUILD, paths.BUILD / "replay"):
        return False
    if os.path.isfile(folder / _EVIDENCE):
        return True
    with suppress(OSError, DataError):
        record = read_object(folder / "record.json")
        is_mutant = str(record.get("build_name", "")).startswith("mutant-")
        return record.get("passed") is False and not is_mutant
    return False

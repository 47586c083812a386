# SPDX-License-Identifier: Apache-2.0
"""A proof as a run on another machine: what a worker gets of it. Nothing is built for it here."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

from scripts.common import run_folders
from scripts.common.paths import RUNS
from scripts.common.records import RunRecord, RunSpec
from scripts.prove import proving
from scripts.prove.proof import Proof


@dataclass(frozen=True)
class Parcel:
    """A proof, with the edits of a mutant if there is one, and the name that it is ``shown_as``.
    Dask hands on what Python pickles, and so does this."""

    proof: Proof
    shown_as: str = ""

    def pack(self) -> bytes:
        """As bytes."""
        return pickle.dumps(self)


def serve(spec: RunSpec, parcel: Path) -> RunRecord:
    """On a worker: try the proof that was sent, in the sources that were."""
    runs = run_folders.folder(RUNS)
    try:
        sent: Parcel = pickle.loads(parcel.read_bytes())
        return proving.run(sent.proof, runs, sent.shown_as)
    except Exception as error:  # of what was sent, or of this machine: the next one may be better
        return proving.not_tried(spec, f"{type(error).__name__}: {error}", runs)

# SPDX-License-Identifier: Apache-2.0
"""Pieces of a replay in other processes or on other machines: files of their results, and adoption.

A piece is adopted once, with all of its epochs and no others.
"""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from neuron_fabric.data import DataError, read_json
from neuron_fabric.errors import CaptureError
from neuron_fabric.output import write_text
from neuron_fabric.typed import typed
from verif.replay.bulk.bulk_transport import STIMULUS_FILE, BulkTransport
from verif.replay.gradient_source import HeldLines, SyntheticSource
from verif.replay.job import Piece, Replay
from verif.replay.journal import Journal
from verif.replay.runner import drive, peak_mebibytes

LINES_FILE, RESULT_FILE = "lines.journal", "result.json"
_AGAIN = "replay it again"


@dataclass(frozen=True)
class Result:
    """Outcome of a piece; lines and figures are in its journal.

    Attributes:
        wrong: Number of wrong lines by step.
        faults: Texts of the faults, one each.
        refused: The parts of a CaptureError that ended the piece (where, what, what to do), or [].
        coverage: Hits by cover point and bin.
        peak: Peak memory of the process in MiB.
    """

    wrong: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    coverage: dict[str, dict[str, int]] = field(default_factory=dict)
    peak: float = 0.0


def identity_of(identity: Mapping[str, Any], piece: Piece) -> dict[str, Any]:
    """Return the identity of the journal of a piece.

    Args:
        identity: Identity of the whole replay, see `Replay.identity`.
        piece: Piece.
    """
    return {**identity, "piece": piece.number}


def drive_piece(done: BulkTransport, piece: Piece, identity: Mapping[str, Any]) -> None:
    """Drive a piece, and write its journal and its outcome to the folder of the transport.

    Args:
        done: Transport that drives only this piece.
        piece: Piece.
        identity: Identity of the whole replay.
    """
    refused: list[str] = []
    with closing(Journal.create(done.folder / LINES_FILE, identity_of(identity, piece))) as journal:
        done.kept = journal
        try:
            drive(done, piece, lambda _lines: None)
        except CaptureError as error:
            refused = [error.where, error.what, error.todo]
    wrong = {str(step): count for step, count in done.wrong.items()}
    result = Result(wrong, done.faults, refused, done.coverage.hits(), peak_mebibytes())
    write_text(done.folder / RESULT_FILE, json.dumps(asdict(result)))


def read_result(folder: Path) -> Result:
    """Read the outcome of a piece.

    Args:
        folder: Folder in which `drive_piece` left it.

    Raises:
        CaptureError: The file is missing or malformed.
    """
    path = folder / RESULT_FILE
    try:
        return typed(Result, read_json(path))
    except (OSError, DataError) as error:
        raise CaptureError(path, error, _AGAIN) from None


def adopt(done: BulkTransport, piece: Piece, folder: Path, identity: Mapping[str, Any]) -> None:
    """Add the results of a piece that another process drove to the replay.

    Args:
        done: Transport of the replay.
        piece: Piece.
        folder: Folder with its results.
        identity: Identity of the whole replay.

    Raises:
        CaptureError: They are incomplete, damaged, adopted already or of something else.
    """
    result = read_result(folder)
    if result.refused:
        raise CaptureError(*result.refused)
    if piece.number in done.cycles:
        raise CaptureError(f"shard {piece.number}", "came twice", _AGAIN)
    path = folder / LINES_FILE
    with closing(Journal.open(path, identity_of(identity, piece))) as journal:
        strange = journal.records.keys() - set(piece.keys)
        lost = [key for key in piece.keys if key not in journal.records]
        if strange or (lost and not result.faults):
            what = f"has {len(strange)} rounds of other shards" if strange else ""
            what = what or f"lacks {len(lost)} of its {len(piece.keys)} rounds"
            raise CaptureError(path, what, _AGAIN)
        for key, record in journal.records.items():
            done.count(piece, key[0], record.figures)
            done.lines += sum(use.lines for use in done.replay.uses(key))
            if done.kept is not None and key not in done.kept.records:
                done.kept.append(key, record.figures, journal.lines(key))
    done.wrong.update({int(step): count for step, count in result.wrong.items()})
    done.fault(*result.faults)
    done.coverage.add(result.coverage)
    done.peak = max(done.peak, result.peak)
    if (folder / STIMULUS_FILE).is_file():
        (folder / STIMULUS_FILE).replace(done.folder / STIMULUS_FILE)


def shipped(replay: Replay, piece: Piece) -> Replay:
    """Return the replay with only what a piece needs on a machine without the capture.

    These are its steps and its lines; synthetic lines are drawn there.

    Raises:
        CaptureError: The capture cannot be read, or has changed.
    """
    source, steps = replay.source, {step for step, _ in piece.keys}
    kept = tuple(one for one in replay.steps if one.step in steps)
    if not isinstance(source, SyntheticSource):
        uses = ((key[0], use) for key in piece.keys for use in replay.uses(key))
        source = HeldLines.of(source, uses)
    return replace(replay, source=source, steps=kept, warnings=())

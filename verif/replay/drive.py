# SPDX-License-Identifier: Apache-2.0
"""A piece of a replay through a device: its epochs driven, judged, counted and kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from verif.replay.check import judge
from verif.replay.job import Piece
from verif.replay.transport import Driven, ReplayStop, Transport

Came = Callable[[Piece], None]
Progress = Callable[[int], None]
Spread = Callable[[Transport, Sequence[Piece], Came, Progress], None]
"""(transport, pieces, called behind each piece, called with the contributions that are done)
-> every piece driven, or all before the first that stops the replay."""


def in_turn(done: Transport, pieces: Sequence[Piece], came: Came, progress: Progress) -> None:
    """One piece after the other, in this process."""
    for piece in pieces:
        goes_on = drive(done, piece, progress)
        came(piece)
        if not goes_on:
            break


def drive(done: Transport, piece: Piece, progress: Progress) -> bool:
    """Every epoch of a piece; False when nothing more can be driven."""
    try:
        with closing(done.session(piece.keys)) as driven:
            for one in driven:
                _take(done, piece, one)
                progress(one.work.writes)
    except ReplayStop as stop:
        done.fault(str(stop))
        return False
    return True


def _take(done: Transport, piece: Piece, driven: Driven) -> None:
    """Judge an epoch and keep it."""
    work, verdict = driven.work, judge(driven.work, done.reduce)
    first_of_step = not done.wrong[work.step]
    done.wrong[work.step] += verdict.wrong
    if verdict.wrong or driven.problems:
        done.stop(driven, verdict.first)
    if verdict.first is not None and first_of_step:
        done.fault(verdict.first.text[:600])
    done.fault(*driven.problems)
    done.count(piece, work.step, driven.figures)
    done.lines += verdict.lines
    done.writes += work.writes
    # A piece that was ended in its middle is driven as a whole again.
    if done.kept is not None and not verdict.wrong and work.key not in done.kept.records:
        done.kept.append(work.key, driven.figures, work.returned)

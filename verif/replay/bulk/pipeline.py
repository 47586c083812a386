# SPDX-License-Identifier: Apache-2.0
"""Rounds through a device: while one is simulated, the last is judged and the next is prepared."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from verif.replay.bulk.device import BulkDevice, BulkFault
from verif.replay.bulk.rounds import Round


class RoundFault(BulkFault):
    """A fault, and the round in which it came."""

    def __init__(self, work: Round, fault: BulkFault) -> None:
        super().__init__(f"step {work.step} round {work.number}: {fault}")
        self.round = work


def stream(
    device: BulkDevice,
    rounds: Iterable[Round],
    judge: Callable[[Round, int], None],
) -> None:
    """Does the rounds in order; ``judge`` is called with each and the clocks that it took.

    Rounds are taken from the iterable one ahead. Whatever ``judge``, the iterable or the device
    raises ends the stream, and the round under way with it where the device can be interrupted.
    """
    with ThreadPoolExecutor(1, "simulator") as pool:
        try:
            _stream(pool, device, rounds, judge)
        except BaseException:
            device.interrupt()
            raise


def _stream(
    pool: ThreadPoolExecutor,
    device: BulkDevice,
    rounds: Iterable[Round],
    judge: Callable[[Round, int], None],
) -> None:
    started: tuple[Round, Future[int]] | None = None
    finished: tuple[Round, int] | None = None
    for work in rounds:
        if started is not None:
            finished = started[0], started[1].result()
        started = work, pool.submit(_run, device, work)
        if finished is not None:
            judge(*finished)
            finished = None
    if started is not None:
        judge(started[0], started[1].result())


def _run(device: BulkDevice, work: Round) -> int:
    before = device.figures().cycles
    try:
        device.run(work.traffic.block)
    except BulkFault as fault:
        raise RoundFault(work, fault) from None
    return device.figures().cycles - before

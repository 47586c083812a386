# SPDX-License-Identifier: Apache-2.0
"""Epochs through a device: while one is simulated, the last is judged and the next is prepared."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from verif.host.bulk_device import BulkDevice, BulkFault
from verif.replay.bulk.epoch_block import EpochBlock


class EpochFault(BulkFault):
    """A fault, and the epoch in which it came."""

    def __init__(self, block: EpochBlock, fault: BulkFault) -> None:
        work = block.work
        super().__init__(f"step {work.step} round {work.number}: {fault}")
        self.block = block


def stream(
    device: BulkDevice, blocks: Iterable[EpochBlock]
) -> Generator[tuple[EpochBlock, int], None, None]:
    """Does the epochs in order; gives each with the clocks that it took.

    They are taken from the iterable one ahead. Whatever the iterable, the device or the user of
    this generator raises ends the stream, and the epoch under way with it where the device can be
    interrupted.
    """
    with ThreadPoolExecutor(1, "simulator") as pool:
        try:
            started: tuple[EpochBlock, Future[int]] | None = None
            for block in blocks:
                finished = (started[0], started[1].result()) if started is not None else None
                started = block, pool.submit(run, device, block)
                if finished is not None:
                    yield finished
            if started is not None:
                yield started[0], started[1].result()
        except BaseException:
            device.interrupt()
            raise


def run(device: BulkDevice, block: EpochBlock) -> int:
    """One epoch; the clocks that it took. EpochFault."""
    before = device.figures().cycles
    try:
        device.run(block.block)
    except BulkFault as fault:
        raise EpochFault(block, fault) from None
    return device.figures().cycles - before

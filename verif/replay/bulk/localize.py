# SPDX-License-Identifier: Apache-2.0
"""Localization of a fault: the contribution that caused a wrong line, and a stimulus for it.

The line alone is driven through a fresh device, one contribution at a time in the order of the
epoch, and read back after each: the first wrong response names the worker. If the line alone comes
out right, the whole epoch is driven again and becomes the stimulus.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.line_packing import LINE_BYTES, U8
from verif.host.bulk_device import BulkDevice, BulkFault
from verif.host.c_interface import OP, Block, Kind
from verif.replay.bulk.epoch_block import EpochBlock, commit_ops, commits, epoch_operations
from verif.replay.line_check import Mismatch, expected_lines, first_value, judge
from verif.replay.options import ReplayOptions
from verif.replay.plan import Lines
from verif.replay.stimulus_file import CommitOperation, Operation, Read, Stimulus, Write
from verif.replay.traffic_order import LDIDS

Open = Callable[[], BulkDevice]


def localize(
    found: Mismatch, block: EpochBlock, open_device: Open, options: ReplayOptions
) -> tuple[str, Stimulus | None]:
    """Search for the cause of a wrong line; this drives the RTL again.

    Args:
        found: The wrong line.
        block: Its epoch.
        open_device: Opens a fresh device.
        options: Options of the replay.

    Returns:
        A text, which names the worker if known, and a stimulus; None instead if a fresh device
        shows no fault.
    """
    alone = _line_alone(found, block, open_device)
    if alone is not None:
        text, operations = alone
    else:
        missing = _absent(found)
        who = f"worker {missing}: its contribution is missing" if missing is not None else ""
        if not _recurs(block, open_device):
            rest = "a fresh device gives the right line: it depends on what went before the round"
            return f"{who}{'; ' if who else ''}{rest}", None
        text, operations = who or "no single worker explains it", epoch_operations(block)
    note = f"{text}; {found.text}"
    own = options.parameters, options.seed, tuple(operations), options.memory
    return text, Stimulus(note, *own)


def arrival(found: Mismatch, block: EpochBlock) -> list[int]:
    """Return the workers of a wrong line in the order in which their contributions were sent."""
    config, ops = found.work.uses[found.use].config, block.block.ops
    step = LINE_BYTES << config.lines_log2
    offset = ops["address"].astype(np.int64) - (config.base + found.line * LINE_BYTES)
    mine = (ops["kind"] == Kind.WRITE) & (offset >= 0) & (offset % step == 0)
    return [int(worker) for worker in offset[mine] // step if worker < config.workers]


def _expected(found: Mismatch, present: list[int]) -> Lines:
    """Return the expected content of a wrong line if only the workers ``present`` had
    contributed.
    """
    work, use = found.work, found.work.uses[found.use]
    sent = work.sent[found.use][:, found.line : found.line + 1]
    mask = np.zeros((len(sent), 1), np.bool_)
    mask[present] = True
    return expected_lines(sent, use, work.plan.params, mask)


def _line_alone(
    found: Mismatch, block: EpochBlock, open_device: Open
) -> tuple[str, list[Operation]] | None:
    """Drive the contributions to the wrong line alone, and read it after each.

    Returns:
        Text of the fault, and the transactions up to the first wrong response; None if all are
        right.
    """
    work, line = found.work, found.line
    use = work.uses[found.use]
    config, order = use.config, arrival(found, block)
    chosen = use.selectors
    operations: list[Operation] = list(commits(block))
    wanted: list[Lines] = []
    for count, worker in enumerate(order, start=1):
        data = work.sent[found.use][worker, line].tobytes()
        operations.append(Write(config.address(worker, line), worker % LDIDS, data))
        wanted.append(_expected(found, order[:count]))
        expect = wanted[-1].stack[:, 0]
        operations += [
            Read(config.address(selector, line), line % min(LDIDS, config.workers), one.tobytes())
            for selector, one in zip(chosen, expect)
        ]
    try:
        got = _drive(operations, open_device)
    except BulkFault as fault:
        return f"line alone: {fault}", operations
    per_read = got.reshape(len(order), len(chosen), LINE_BYTES)
    for count, (worker, want) in enumerate(zip(order, wanted), start=1):
        own = Lines(chosen, per_read[count - 1][:, None])
        if not own.differ(want).any():
            continue
        what, element, values = first_value(use.route, own, want, 0)
        text = (
            f"worker {worker}, line {line} of region {use.region}, element {element}: after its "
            f"contribution, number {count} of the line, {what} is {values[0]}, not {values[1]}"
        )
        last = len(operations) - (len(order) - count) * (1 + len(chosen))
        return text, operations[:last]
    return None


def _drive(operations: list[Operation], open_device: Open) -> U8:
    """Drive operations in order on a fresh device; return the lines read, uint8[n, 64].

    Each waits until all operations before it are answered: the device promises no order between
    overlapping requests to a line, and a later contribution must not change an earlier read.
    """
    parts: list[NDArray[Any]] = []
    sent: list[U8] = []
    reads = 0
    for one in operations:
        if isinstance(one, CommitOperation):
            parts.append(commit_ops(one.region, one.config, one.epoch))
            continue
        op = np.zeros(1, OP)
        op["address"], op["ldid"] = one.address, one.ldid
        op["after"] = sum(len(part) for part in parts)
        if isinstance(one, Write):
            op["kind"], op["line"] = Kind.WRITE, len(sent)
            sent.append(np.frombuffer(one.data, np.uint8))
        else:
            op["kind"], op["line"] = Kind.READ, reads
            reads += 1
        parts.append(op)
    block = Block.of(np.concatenate(parts), np.stack(sent), reads)
    with closing(open_device()) as device:
        device.run(block)
    return block.got


def _absent(found: Mismatch) -> int | None:
    """Return the only worker whose missing contribution explains the wrong line, or None."""
    got = found.work.got[found.use].stack[:, found.line]
    everybody = list(range(found.work.plan.workers))
    suspects = []
    for worker in everybody:
        want = _expected(found, [w for w in everybody if w != worker])
        if np.array_equal(got, want.stack[:, 0]):
            suspects.append(worker)
    return suspects[0] if len(suspects) == 1 else None


def _recurs(block: EpochBlock, open_device: Open) -> bool:
    """Return whether a fresh device fails in the epoch as well: by a wrong line, or by a fault."""
    own = block.block
    again = Block.of(own.ops, own.sent, len(own.got))
    fresh = open_device()
    try:
        with closing(fresh):
            fresh.run(again)
    except BulkFault:
        return True
    own.got[:] = again.got
    return judge(block.work).wrong > 0

# SPDX-License-Identifier: Apache-2.0
"""From a wrong line to the worker whose contribution went wrong, and a stimulus that shows it.

The line alone goes through a fresh device, contribution by contribution in the order of the round,
and is read back after each: the first answer that differs names the worker. Where the line alone
comes out right, the whole round is driven again, and becomes the stimulus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.formats import LINE_BYTES, U8, Tie
from models.regions import PLANE_SELECTOR, DeviceParams
from verif.replay.bulk.block import OP, Block, Kind
from verif.replay.bulk.device import BulkDevice, BulkFault
from verif.replay.bulk.rounds import Mismatch, Round, expected, judge
from verif.replay.bulk.traffic import LDIDS, Share, commit_ops
from verif.replay.check import first_value
from verif.replay.prepare import Lines, expected_lines
from verif.replay.stimulus import Commit, Operation, Read, Stimulus, Write

Open = Callable[[], BulkDevice]


@dataclass(frozen=True)
class Finding:
    """``text`` names the worker where it is known; ``stimulus``: None where it does not recur."""

    text: str
    stimulus: Stimulus | None


def narrow(
    found: Mismatch,
    device: DeviceParams,
    open_device: Open,
    parameters: Mapping[str, int],
    seed: int,
) -> Finding:
    """Find out more about a mismatch; drives the RTL again."""
    alone = _line_alone(found, device, open_device)
    if alone is not None:
        text, operations = alone
    else:
        missing = _absent(found, device)
        who = f"worker {missing}: its contribution is not in it" if missing is not None else ""
        again = _whole_round(found.round, device, open_device)
        if again is None:
            rest = "a fresh device gives the right line: it depends on what went before the round"
            return Finding(f"{who}{'; ' if who else ''}{rest}", None)
        text, operations = who or "no single worker explains it", again
    note = f"{text}; {found.text}"
    return Finding(text, Stimulus(note, parameters, seed, tuple(operations)))


def arrival(found: Mismatch) -> list[int]:
    """The workers of a line in the order in which their contributions were sent."""
    share = found.round.traffic.shares[found.share]
    ops = found.round.traffic.block.ops
    step = LINE_BYTES << share.config.lines_log2
    offset = ops["address"].astype(np.int64) - (share.config.base + found.line * LINE_BYTES)
    mine = (ops["kind"] == Kind.WRITE) & (offset >= 0) & (offset % step == 0)
    return [int(worker) for worker in offset[mine] // step if worker < len(share.sent)]


def _expected(share: Share, line: int, present: list[int], device: DeviceParams) -> Lines:
    sent = share.sent[:, line : line + 1]
    mask = np.zeros((len(sent), 1), np.bool_)
    mask[present] = True
    tie = Tie.MINUS if share.config.tie_minus else Tie.PLUS
    return expected_lines(sent, share.config.mode, tie, share.config.threshold, device, mask)


def _line_alone(
    found: Mismatch, device: DeviceParams, open_device: Open
) -> tuple[str, list[Operation]] | None:
    """(what is wrong, transactions up to the first wrong answer), or None: the line is right."""
    share = found.round.traffic.shares[found.share]
    config, line = share.config, found.line
    order = arrival(found)
    selectors = [0, *range(PLANE_SELECTOR, PLANE_SELECTOR + share.planes)]
    operations: list[Operation] = list(_commits(found.round))
    wanted: list[Lines] = []
    for count, worker in enumerate(order, start=1):
        data = share.sent[worker, line].tobytes()
        operations.append(Write(config.address(worker, line), worker % LDIDS, data))
        wanted.append(_expected(share, line, order[:count], device))
        expect = [wanted[-1].result[0], *wanted[-1].planes[:, 0]]
        operations += [
            Read(config.address(selector, line), line % min(LDIDS, config.workers), one.tobytes())
            for selector, one in zip(selectors, expect)
        ]
    try:
        got = _drive(operations, open_device)
    except BulkFault as fault:
        return f"line alone: {fault}", operations
    per_read = got.reshape(len(order), len(selectors), LINE_BYTES)
    for count, (worker, want) in enumerate(zip(order, wanted), start=1):
        own = Lines(per_read[count - 1, :1], per_read[count - 1, 1:, None])
        same = (own.result == want.result).all() and (own.planes == want.planes).all()
        if same:
            continue
        what, element, values = first_value(config.mode, own, want, 0)
        text = (
            f"worker {worker}, line {line} of region {share.region}, element {element}: after its "
            f"contribution, number {count} of the line, {what} is {values[0]}, not {values[1]}"
        )
        last = len(operations) - (len(order) - count) * (1 + len(selectors))
        return text, operations[:last]
    return None


def _commits(work: Round) -> list[Commit]:
    return [Commit(share.region, share.config, work.epoch) for share in work.shares]


def _drive(operations: list[Operation], open_device: Open) -> U8:
    """What the reads return on a fresh device, each operation after the one before."""
    parts: list[NDArray[Any]] = []
    sent: list[U8] = []
    reads = 0
    for one in operations:
        if isinstance(one, Commit):
            parts.append(commit_ops(one.region, one.config, one.epoch))
            continue
        op = np.zeros(1, OP)
        op["address"], op["ldid"] = one.address, one.ldid
        if isinstance(one, Write):
            op["kind"], op["line"] = Kind.WRITE, len(sent)
            sent.append(np.frombuffer(one.data, np.uint8))
        else:
            op["kind"], op["line"] = Kind.READ, reads
            op["after"] = sum(len(part) for part in parts)
            reads += 1
        parts.append(op)
    block = Block.of(np.concatenate(parts), np.stack(sent), reads)
    device = open_device()
    try:
        device.run(block)
    finally:
        device.close()
    return block.got


def _absent(found: Mismatch, device: DeviceParams) -> int | None:
    """The one worker without whom the line would be what came back."""
    share = found.round.traffic.shares[found.share]
    got = found.round.traffic.got[found.share][:, found.line]
    everybody = list(range(len(share.sent)))
    suspects = []
    for worker in everybody:
        want = _expected(share, found.line, [w for w in everybody if w != worker], device)
        if np.array_equal(got, np.concatenate([want.result, want.planes[:, 0]])):
            suspects.append(worker)
    return suspects[0] if len(suspects) == 1 else None


def _whole_round(work: Round, device: DeviceParams, open_device: Open) -> list[Operation] | None:
    """The transactions of the round, if a fresh device gets a line of it wrong as well."""
    block = work.traffic.block
    again = Block.of(block.ops, block.sent, len(block.got))
    fresh = open_device()
    try:
        fresh.run(again)
    except BulkFault:
        pass
    else:
        block.got[:] = again.got
        if judge(work, device) is None:
            return None
    finally:
        fresh.close()
    return round_operations(work, device)


def round_operations(work: Round, device: DeviceParams) -> list[Operation]:
    """All transactions of a round in their order, with what the reads must give."""
    block, expect = work.traffic.block, _expected_reads(work, device)
    out: list[Operation] = list(_commits(work))
    for op in block.ops:
        address, ldid, line = int(op["address"]), int(op["ldid"]), int(op["line"])
        if op["kind"] == Kind.WRITE:
            out.append(Write(address, ldid, block.sent[line].tobytes()))
        elif op["kind"] == Kind.READ:
            out.append(Read(address, ldid, expect[line].tobytes()))
    return out


def _expected_reads(work: Round, device: DeviceParams) -> U8:
    """uint8[m, 64]: what ``block.got`` should be."""
    parts = []
    for share in work.traffic.shares:
        want = expected(share, device)
        parts += [want.result, want.planes.reshape(-1, LINE_BYTES)]
    return np.concatenate(parts)

# SPDX-License-Identifier: Apache-2.0
"""Tests of the parts of the linearizer: commuting operations, merged states, failing memory."""

from itertools import product
from types import SimpleNamespace
from typing import Any

from cocotbext.cxl.wire.messages import M2SReq, ReqOp
from models.access_decode import Kind
from models.device import DeviceModel
from models.parameters import DeviceParams
from verif.scoreboard.linearize import Bucket, State, commute, failing
from verif.scoreboard.operations import Op

INERT = {Kind.REFUSED, Kind.NO_EFFECT, Kind.STATUS, Kind.CONTROL}


def op(kind: Kind, read: bool, selector: int) -> Op:
    """Return an operation of which only the kind, the direction and the selector are set."""
    access: Any = SimpleNamespace(kind=kind, selector=selector)
    return Op(M2SReq(ReqOp.MEM_RD, 0, 0), 0, access, read=read)


def test_operations_that_commute() -> None:
    ops = [op(*one) for one in product(Kind, (False, True), (0, 1))]
    for a, b in product(ops, repeat=2):
        kinds = {a.access.kind, b.access.kind}
        apart = kinds == {Kind.CONTRIBUTION} and a.access.selector != b.access.selector
        writes = not (a.read or b.read)
        assert commute(a, b) is (bool(kinds & INERT) or (a.read and b.read) or (apart and writes))


def test_equal_states_merge_into_the_wider_range() -> None:
    snap = DeviceModel(DeviceParams()).snapshot(None)
    for spans in product(((0, 1), (0, 5), (2, 3), (4, 5)), repeat=2):
        bucket = Bucket()
        for low, high in spans:
            bucket.add(State(snap, low=(low,), high=(high,)))
        (one,) = bucket.states.values()
        assert one.low == (min(low for low, _ in spans),)
        assert one.high == (max(high for _, high in spans),)


def test_memory_fails_within_the_block_alone() -> None:
    model = DeviceModel(DeviceParams())
    model.read_errors, model.write_errors = {1}, {2}
    with failing(model, {3}):
        assert (model.read_errors, model.write_errors) == ({1, 3}, {2, 3})
    assert (model.read_errors, model.write_errors) == ({1}, {2})

# SPDX-License-Identifier: Apache-2.0
"""Effects that a request without a verdict may have had on the counters of the device."""

from cocotbext.cxl.wire.messages import Completion, M2SRwD, completion_of
from models.access_decode import READ_KINDS, Cause, Kind
from models.line_packing import illegal_codes
from models.modes import GATED, Mode
from verif.scoreboard.operations import Op

_REFUSALS = {Cause.UNSUPPORTED: "UNSUPPORTED", Cause.UNMAPPED: "UNMAPPED"}


def potential(op: Op, mode: Mode | None) -> dict[str, int]:
    """Return the most by which a request without a verdict may have increased each counter.

    A request that raced with a commit of its region may have been decoded otherwise than on
    arrival.

    Args:
        op: Request.
        mode: Mode of its region, if known.

    Returns:
        Increase by name of the counter; counters that cannot change are left out.
    """
    kind = op.access.kind
    write = isinstance(op.msg, M2SRwD)
    out: dict[str, int] = {}
    if op.misframed or kind in (Kind.DROPPED, Kind.NO_EFFECT):
        return {"UNSUPPORTED": 1} if op.misframed else out
    if kind is Kind.REFUSED:
        out[_REFUSALS.get(op.access.cause, "REFUSED")] = 1
        if not op.commit_raced:
            return out
    if op.commit_raced:
        out |= {"REFUSED": 1, "UNMAPPED": 1}
    if write:
        assert isinstance(op.msg, M2SRwD)
        if op.msg.poison:
            out["POISON_RECEIVED"] = 1
        if kind is Kind.CONTRIBUTION or op.commit_raced:
            out |= {"DUPLICATE": 1, "CONTRIBUTION": 1, "LATE": 1}
            if mode in GATED or op.commit_raced:
                modes = GATED if op.commit_raced or mode is None else (mode,)
                out["ILLEGAL_CODE"] = max(illegal_codes(op.msg.data, one) for one in modes)
    elif completion_of(op.msg) is Completion.DRS and (kind in READ_KINDS or op.commit_raced):
        out["EARLY_READ"] = 1
    return out

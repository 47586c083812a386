# SPDX-License-Identifier: Apache-2.0
"""State machines of link-level retry against what comes in, where the link block stands alone.

There its port `status` tells the state; inside the controller only a register does, clocks later.
"""

from __future__ import annotations

from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind
from cocotbext.cxl.link.retry import FRAMES
from cocotbext.cxl.wire.control import Llcrd, RetryAck, RetryFrame, RetryIdle, RetryReq
from models.nf_regs import REG_MAP
from verif.coverage.cover_model import CHEAP, CoverModel

STATES = tuple(REG_MAP.enums["Lrsm"])
RRSM = ("NORMAL", "LLRACK")
ERRORS = tuple(name for name, code in REG_MAP.enums["LinkError"].items() if code)
LRSM_TEST = "test_link_states::states"
EVENTS = (
    "data or header",
    "LLCRD",
    "INIT.Param",
    "RETRY.Idle",
    "RETRY.Frame",
    "RETRY.Req alone",
    "RETRY.Req",
    "RETRY.Ack alone",
    "RETRY.Ack",
    "bad CRC",
    "bad Protocol ID",
    "phy down",
)
_NEXT = {
    "NORMAL": ("LLRREQ", "PHY_REINIT"),
    "LLRREQ": ("LOCAL_IDLE", "PHY_REINIT", "ABORT"),
    "LOCAL_IDLE": ("NORMAL", "LLRREQ", "PHY_REINIT"),
    "PHY_REINIT": ("LLRREQ",),
    "ABORT": (),
}
_STEPS = [f"{a} to {b}" for a, nexts in _NEXT.items() for b in nexts]
_PLAIN: dict[type, str] = {RetryIdle: "RETRY.Idle", RetryFrame: "RETRY.Frame", Llcrd: "LLCRD"}


def event_name(event: FlitEvent, frames: int) -> str | None:
    """The event that a flit to the device is; ``frames``: RETRY.Frame flits just before it."""
    if event.kind is FlitKind.BAD_CRC:
        return "bad CRC"
    if event.kind is FlitKind.BAD_ID:
        return "bad Protocol ID"
    if event.kind in (FlitKind.NULL, FlitKind.UNEXPECTED):
        return None
    control = event.control
    if control is None:
        return "data or header"
    if isinstance(control, RetryReq | RetryAck):
        name = "RETRY.Req" if isinstance(control, RetryReq) else "RETRY.Ack"
        return name if frames >= FRAMES else f"{name} alone"
    return _PLAIN.get(type(control), "INIT.Param")


class LinkStatePoints:
    """Sampling: `clock` once a clock, before the flit of that clock."""

    def __init__(self, model: CoverModel) -> None:
        self.lrsm = model.cross(
            "link LRSM",
            "the local retry state machine x everything that can come in",
            {"state": STATES, "event": EVENTS},
            test=LRSM_TEST,
        )
        self.rrsm = model.cross(
            "link RRSM",
            "the remote retry state machine x everything that can come in",
            {"state": RRSM, "event": EVENTS},
            test=LRSM_TEST,
        )
        self.both = model.cross(
            "link LRSM with RRSM",
            "a retry of the host in every state of the device's own; while phy_up is low, and in "
            "ABORT, none is owed",
            {"LRSM": STATES, "RRSM": RRSM},
            test=LRSM_TEST,
            ignore=lambda lrsm, rrsm: rrsm == "LLRACK" and lrsm in ("PHY_REINIT", "ABORT"),
        )
        self.step = model.point(
            "link LRSM step",
            "every step of the local retry state machine",
            _STEPS,
            test=LRSM_TEST,
            illegal=[f"{a} to {b}" for a in STATES for b in STATES if a != b and b not in _NEXT[a]],
        )
        self.error = model.point(
            "link error",
            "every error that the link captures; ACK and RETRY_REQ come in this test alone, others "
            "in test_link_states::states or test_link_block::*, too",
            ERRORS,
            test="test_link_retry_corners::sequences",
            at_least=CHEAP,
        )
        self.reset()

    def reset(self) -> None:
        """A reset of the link."""
        self._state = ""
        self._waiting: str | None = None
        self._frames = 0
        self._phy = True

    def clock(self, status: dict[str, int], phy: bool, event: FlitEvent | None) -> None:
        """One clock: members of the port `status`, phy_up, and the flit that the device samples.

        The flit is judged a clock later, in the state that is seen then.
        """
        state, rrsm = STATES[status["lrsm"]], RRSM[status["rrsm"]]
        if self._waiting is not None:
            self.lrsm.hit(state, self._waiting)
            self.rrsm.hit(rrsm, self._waiting)
            self._waiting = None
        if self._phy and not phy:
            self.lrsm.hit(state, "phy down")
            self.rrsm.hit(rrsm, "phy down")
        self._phy = phy
        self.both.hit(state, rrsm)
        if self._state and state != self._state:
            self.step.hit(f"{self._state} to {state}")
        self._state = state
        if status["error_kind"]:
            self.error.hit(ERRORS[status["error_kind"] - 1])
        if event is not None:
            self._waiting = event_name(event, self._frames)
            frame = isinstance(event.control, RetryFrame) and event.kind is FlitKind.CONTROL
            self._frames = self._frames + 1 if frame else 0

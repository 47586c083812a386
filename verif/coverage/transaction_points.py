# SPDX-License-Identifier: Apache-2.0
"""Transactions: opcodes, modes, refusals, poison, byte enables, races; from judged operations."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, M2SRwD, ReqOp, RwdOp
from models.line_packing import Mode
from models.regions import Cause, Kind, RegionConfig
from verif.coverage.cover_model import CHEAP, CoverModel
from verif.scoreboard.operations import Op

AGGREGATING = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
LOW_BIT = (Mode.G_BINARY, Mode.G_TERNARY)
BE_KINDS = ("none", "one", "all", "mixed")
REFUSALS: dict[str, list[Cause]] = {
    "write": [c for c in Cause if c is not Cause.NONE],
    # PARTIAL and BIND exist for writes alone.
    "read": [c for c in Cause if c not in (Cause.NONE, Cause.PARTIAL, Cause.BIND)],
}


def _access_bins() -> list[str]:
    bins = ["write MEMORY", "read MEMORY", "write IDENTITY", "read IDENTITY"]
    for mode in AGGREGATING:
        bins += [f"write {mode.name}", f"read result {mode.name}"]
    for mode in LOW_BIT:
        bins += [f"read plane {plane} {mode.name}" for plane in range(8)]
    return [*bins, "read raw FP32"]


def be_kind(be: int) -> str:
    """Class of a partial write's byte enables."""
    if be in (0, BE_ALL):
        return "all" if be else "none"
    return "one" if be.bit_count() == 1 else "mixed"


class TransactionPoints:
    """Feed it with `op`."""

    def __init__(self, model: CoverModel) -> None:
        point = model.point
        self.access = point(
            "access",
            "every operation of every mode",
            _access_bins(),
            test="test_mixed::mixed_regions",
            at_least=CHEAP,
        )
        self.opcode = point(
            "opcode",
            "every opcode is answered as the link spec says",
            [f"Req {op.name}" for op in ReqOp if op is not ReqOp.MEM_SPEC_RD]
            + [f"RwD {op.name}" for op in RwdOp]
            + ["Req reserved", "RwD reserved"],
            test="test_protection::protection",
            at_least=CHEAP,
        )
        self.refusal = point(
            "refusal",
            "every cause, for each direction in which it exists",
            [f"{way} {cause.name}" for way, causes in REFUSALS.items() for cause in causes],
            test="test_protection::protection",
            at_least=CHEAP,
        )
        self.poison = point(
            "poison",
            "poison taken in, and given back, in each mode",
            [f"write {m}" for m in ("MEMORY", "IDENTITY", "G_BINARY", "G_TERNARY", "FP32")]
            + [f"read {m}" for m in ("MEMORY", "IDENTITY", "G_BINARY", "G_TERNARY", "FP32")],
            test="test_events::poison",
            at_least=CHEAP,
        )
        self.bytes = point(
            "byte enables",
            "partial writes: none, one, all and mixed bytes, where they are honoured",
            [f"{m} {k}" for m in ("MEMORY", "IDENTITY", "FP32") for k in BE_KINDS],
            test="test_plain_memory::partial_writes",
            at_least=CHEAP,
        )
        self.race = point(
            "race",
            "operations overlapping on one line, and with a commit of their region",
            ["read on line", "write on line", "read with commit", "write with commit"],
            test="test_epochs::epoch_same_region",
            at_least=CHEAP,
        )
        self.ldid = point(
            "ldid",
            "every LD-ID is echoed",
            [str(k) for k in range(16)],
            test="test_mixed::mixed_regions",
            at_least=CHEAP,
        )

    def op(self, op: Op, config: RegionConfig | None) -> None:
        """An answered operation."""
        msg, access = op.msg, op.access
        way = "read" if op.read else "write"
        name = getattr(msg.opcode, "name", None)
        self.opcode.hit(f"{'Req' if op.read else 'RwD'} {name or 'reserved'}")
        self.ldid.hit(str(msg.ldid))
        if access.cause is not Cause.NONE:
            self.refusal.hit(f"{way} {access.cause.name}")
            return
        if access.kind is Kind.NO_EFFECT:
            return
        mode = "MEMORY" if config is None else config.mode.name
        self._access(op, way, mode)
        if isinstance(msg, M2SRwD):
            if msg.poison:
                self.poison.hit(f"write {mode}")
            if msg.opcode == RwdOp.MEM_WR_PTL and f"{mode} all" in self.bytes.bins:
                self.bytes.hit(f"{mode} {be_kind(msg.be)}")
        elif isinstance(op.response, S2MDRS) and op.response.poison:
            self.poison.hit(f"read {mode}")
        if op.overlapped:
            self.race.hit(f"{way} on line")
        if op.commit_raced:
            self.race.hit(f"{way} with commit")

    def _access(self, op: Op, way: str, mode: str) -> None:
        access = op.access
        if access.kind is Kind.RESULT:
            self.access.hit(f"read result {mode}")
        elif access.kind is Kind.PLANE:
            self.access.hit(f"read plane {access.selector - 8} {mode}")
        elif access.kind is Kind.RAW:
            self.access.hit("read raw FP32")
        else:
            self.access.hit(f"{way} {mode}")

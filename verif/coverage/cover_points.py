# SPDX-License-Identifier: Apache-2.0
"""What must have been seen, sampled from judged operations, commits, registers and memory beats."""

from __future__ import annotations

from cocotbext.cxl.wire.messages import BE_ALL, S2MDRS, DevLoad, M2SRwD, ReqOp, RwdOp
from models.line_packing import Mode
from models.nf_regs import REG_MAP
from models.regions import Cause, CommitCode, Kind, RegionConfig
from models.register_map import Counts
from verif.axi import Resp
from verif.coverage.cover_model import CoverModel
from verif.mem.memory_config import FULL_STROBE, MemBeat
from verif.scoreboard.operations import Op

_IRQ_STATUS = REG_MAP.expand()["IRQ_STATUS"]
_REGION_STATUS = REG_MAP.region_register("STATUS")
AGGREGATING = (Mode.G_BINARY, Mode.G_TERNARY, Mode.FP32)
LOW_BIT = (Mode.G_BINARY, Mode.G_TERNARY)
ERRORS = (Resp.SLVERR.name, Resp.DECERR.name)
READ_PLACES = ("MEMORY", "IDENTITY", "FP32", "FP32 bookkeeping", "bookkeeping", "plane")
WRITE_PLACES = ("MEMORY", "IDENTITY", "FP32", "FP32 partial", "eviction", "initialiser")
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


class NfCoverage:
    """Sampling methods; the subscriber component calls them."""

    _BE_KINDS = ("none", "one", "all", "mixed")

    def __init__(self) -> None:
        model = self.model = CoverModel()
        point = model.point
        self.access = point("access", "every operation of every mode", _access_bins())
        self.opcode = point(
            "opcode",
            "every opcode is answered as the link spec says",
            [f"Req {op.name}" for op in ReqOp if op is not ReqOp.MEM_SPEC_RD]
            + [f"RwD {op.name}" for op in RwdOp]
            + ["Req reserved", "RwD reserved"],
        )
        self.refusal = point(
            "refusal",
            "every cause, for each direction in which it exists",
            [f"{way} {cause.name}" for way, causes in REFUSALS.items() for cause in causes],
        )
        self.poison = point(
            "poison",
            "poison taken in, and given back, in each mode",
            [f"write {m}" for m in ("MEMORY", "IDENTITY", "G_BINARY", "G_TERNARY", "FP32")]
            + [f"read {m}" for m in ("MEMORY", "IDENTITY", "G_BINARY", "G_TERNARY", "FP32")],
        )
        self.bytes = point(
            "byte enables",
            "partial writes: none, one, all and mixed bytes, where they are honoured",
            [f"{m} {k}" for m in ("MEMORY", "IDENTITY", "FP32") for k in self._BE_KINDS],
        )
        self.race = point(
            "race",
            "operations overlapping on one line, and with a commit of their region",
            ["read on line", "write on line", "read with commit", "write with commit"],
        )
        self.ldid = point("ldid", "every LD-ID is echoed", [str(k) for k in range(16)])
        self.devload = point("devload", "the load is reported", [load.name for load in DevLoad])
        self.workers = point(
            "workers",
            "the edges of W, per mode",
            [f"{m.name} {k}" for m in AGGREGATING for k in "1nN"],
        )
        self.lines = point("lines", "windows of one line and of several", ["1", ">1"])
        self.options = point(
            "options",
            "both values of the options that change an answer",
            [f"{o} {v}" for o in ("tie_minus", "strict", "bind") for v in (0, 1)]
            + [f"threshold {k}" for k in ("1", ">1")],
        )
        self.commit = point("commit", "every code of a commit", [code.name for code in CommitCode])
        self.commit_traffic = point(
            "commit traffic",
            "an epoch starts while requests are in flight, and with none",
            ["quiet", "busy"],
        )
        self.memory = point(
            "memory",
            "what happens on the device-memory port",
            [
                "read",
                "write full",
                "write partial",
                "write poison",
                "read poison",
                "read error",
                "write error",
            ],
        )
        self.side_band = point(
            "memory side-band",
            "every error and poison of the memory met every path of the device to it",
            [f"read {place} {kind}" for place in READ_PLACES for kind in (*ERRORS, "poison")]
            + [f"write {place} {kind}" for place in WRITE_PLACES for kind in ERRORS]
            + [f"write {place} poison" for place in ("MEMORY", "IDENTITY")],
        )
        self.interrupt = point(
            "interrupt",
            "each source was seen pending",
            [f.name for f in _IRQ_STATUS.fields],
        )
        self.slots = point(
            "slots",
            "the pool was hit, missed, evicted from and refilled",
            REG_MAP.counters(Counts.SLOTS),
        )
        self.line_flags = point(
            "line events",
            "rare events of a line were counted by the device",
            ["DUPLICATE", "ILLEGAL_CODE", "EARLY_READ", "SATURATED"],
        )

    # -- sampling -----------------------------------------------------------------------------
    def op(self, op: Op, config: RegionConfig | None) -> None:
        """An answered operation."""
        msg, access = op.msg, op.access
        way = "read" if op.read else "write"
        name = getattr(msg.opcode, "name", None)
        self.opcode.hit(f"{'Req' if op.read else 'RwD'} {name or 'reserved'}")
        self.ldid.hit(str(msg.ldid))
        if op.response is not None:
            self.devload.hit(DevLoad(op.response.devload).name)
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
                self.bytes.hit(f"{mode} {self._be_kind(msg.be)}")
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

    @staticmethod
    def _be_kind(be: int) -> str:
        if be in (0, BE_ALL):
            return "all" if be else "none"
        return "one" if be.bit_count() == 1 else "mixed"

    def committed(self, config: RegionConfig, code: int, busy: bool) -> None:
        """A commit was decided."""
        self.commit.hit(CommitCode(code).name)
        if code:
            return
        self.commit_traffic.hit("busy" if busy else "quiet")
        self.lines.hit(">1" if config.lines_log2 else "1")
        if config.mode is not Mode.IDENTITY:
            edge = {1: "1", 64: "N"}.get(config.workers, "n")
            self.workers.hit(f"{config.mode.name} {edge}")
        for option in ("tie_minus", "strict", "bind"):
            self.options.hit(f"{option} {int(getattr(config, option))}")
        self.options.hit(f"threshold {'1' if config.threshold == 1 else '>1'}")

    def beat(self, beat: MemBeat, place: str) -> None:
        """A beat on the device-memory port; `place`: as `MemoryPort.place` names it."""
        kind = Resp(beat.resp).name if beat.error else "poison" if beat.poison else ""
        if kind:
            self.side_band.hit(f"{'write' if beat.write else 'read'} {place} {kind}")
        if beat.error:
            self.memory.hit(f"{'write' if beat.write else 'read'} error")
        elif not beat.write:
            self.memory.hit("read poison" if beat.poison else "read")
        else:
            self.memory.hit("write full" if beat.strobe == FULL_STROBE else "write partial")
            if beat.poison:
                self.memory.hit("write poison")

    def register(self, name: str, value: int) -> None:
        """A register was read."""
        if name == "IRQ_STATUS":
            for source, pending in _IRQ_STATUS.unpack(value).items():
                if pending:
                    self.interrupt.hit(source)
        elif name in self.slots.bins and value:
            self.slots.hit(name)
        elif name in self.line_flags.bins and value:
            self.line_flags.hit(name)
        elif name.endswith("].STATUS") and _REGION_STATUS.field("SATURATED").extract(value):
            self.line_flags.hit("SATURATED")

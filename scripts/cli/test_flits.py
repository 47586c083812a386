# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf report flits`: a link trace is printed slot by slot; other files give one line."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from cocotbext.cxl.link.device_stub import DeviceStub
from cocotbext.cxl.link.link_config import LinkConfig
from cocotbext.cxl.link.partner import DeviceLink, HostLink
from cocotbext.cxl.trace import TraceWriter
from cocotbext.cxl.wire.flits import Direction, ProtocolCode
from cocotbext.cxl.wire.messages import M2SReq, M2SRwD, ReqOp, RwdOp
from scripts.cli.conftest import Nf

PID = ProtocolCode.CACHEMEM.word


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Write a link trace of five writes and a read, with one damaged flit in each direction."""
    path = tmp_path / "link.trace"
    writer = TraceWriter(path)
    host = HostLink(LinkConfig(retry=True))
    stub = DeviceStub(DeviceLink(LinkConfig(retry=True)))
    rng = random.Random(1)
    intact = True
    for clock in range(160):
        if clock == 60:
            for k in range(5):
                host.send(M2SRwD(RwdOp.MEM_WR, k, 64 * k, data=rng.randbytes(64)))
            host.send(M2SReq(ReqOp.MEM_RD, 9, 64))
        out, up = host.next_flit(), stub.next_flit()
        if out is not None:
            if clock == 61:
                out = out[0], out[1] ^ 1 << 400
            writer.flit(clock, Direction.M2S, *out)
            stub.receive(*out)
        if up is not None:
            writer.flit(clock, Direction.S2M, *up)
            if clock > 60 and not up[1] & 1 and intact:
                up, intact = (up[0], up[1] ^ 1 << 400), False
            host.receive(*up)
    writer.close()
    return path


def test_slot_by_slot(recorded: Path, nf: Nf) -> None:
    text = nf("report", "flits", str(recorded))
    for part in (
        "InitParam(wrap=63",
        "M2SRwD MEM_WR tag=0000 ld=0 addr=0x0",
        "M2SReq MEM_RD tag=0009",
        "S2MDRS MEM_DATA tag=0009",
        "S2MNDR CMP",
        "all-data flit",
        "BAD, computed",
        "in the shadow of an error",
        "RetryReq(eseq=",
        "(replayed)",
    ):
        assert part in text, part


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "no flit in it"),
        ("hello world\n", ":1: not 'clock M2S|S2M"),
        (f"1 M2S 5555 {'0' * 131}\n", "132 hex digits"),
        (f"1 X2Y 5555 {'0' * 132}\n", ":1: not"),
        (f"reset\n1 M2S 55G5 {'0' * 132}\n", ":2: not"),
        (f"+1 M2S 5555 {'0' * 132}\n", ":1: not"),
        (f"\u0661 M2S 5555 {'0' * 132}\n", ":1: not"),
        (f"{'9' * 5000} M2S 5555 {'0' * 132}\n", ":1: not"),
        (f"1 M2S +555 {'0' * 132}\n", ":1: not"),
        (f"1 M2S 5555 0x{'0' * 130}\n", ":1: not"),
        (f"1 M2S 5555 {'0' * 65}_{'0' * 66}\n", ":1: not"),
        (f"1 M2S 5555 {'0' * 132} 7\n", ":1: not"),
        (b"\xff\xfe\x00", "not even text"),
        (None, "cannot read"),
    ],
)
def test_bad_input(tmp_path: Path, nf: Nf, content: str | bytes | None, complaint: str) -> None:
    path = tmp_path / "trace"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        path.write_text(content, encoding="utf-8")
    error = nf("report", "flits", str(path), code=2)
    assert complaint in error
    assert error.count("\n") == 1

# SPDX-License-Identifier: Apache-2.0
"""Tests of the writer of link traces."""

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cocotbext.cxl.conftest import RunCocotb
from cocotbext.cxl.link.flit_event import FlitEvent, FlitKind
from cocotbext.cxl.trace import TraceError, TraceWriter, explain, from_environment, read
from cocotbext.cxl.trace import _text as trace_text
from cocotbext.cxl.wire.control import (
    InitParam,
    RetryFrame,
    RetryIdle,
    UnknownControl,
    encode_control,
)
from cocotbext.cxl.wire.crc import seal
from cocotbext.cxl.wire.describe import describe
from cocotbext.cxl.wire.flits import Direction, ProtocolCode

IDLE = ProtocolCode.CACHEMEM.word, seal(encode_control(RetryIdle()))


def test_two_runs_in_one_test_are_recorded(run_cocotb: RunCocotb, tmp_path: Path) -> None:
    """Check that two UVM runs in one cocotb test write two equal, full recordings to one trace."""
    path = tmp_path / "link.trace"
    only = {"COCOTB_TEST_FILTER": "waived_time_out", "NF_LINK_TRACE": str(path)}
    assert run_cocotb("cocotbext.cxl.tests.test_uvm_agent", **only) == (1, 0)
    clocks = [flit.clock for flit in read(path) if not flit.note]
    again = [k for k in range(1, len(clocks)) if clocks[k] < clocks[k - 1]]
    assert len(again) == 1, "the second run counts from 0"
    assert clocks[: again[0]] == clocks[again[0] :], "both runs are recorded, whole"


def test_nothing_is_written_after_the_end(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "t")
    writer.flit(1, Direction.M2S, *IDLE)
    writer.close()
    writer.flit(2, Direction.M2S, *IDLE)
    writer.note("reset")
    writer.close()
    assert [flit.clock for flit in read(tmp_path / "t")] == [1]


def test_the_next_test_goes_on_where_a_failed_one_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a new writer appends to the trace after the flits of one that was not closed."""
    monkeypatch.setenv("NF_LINK_TRACE", str(tmp_path / "t"))
    for clock in (1, 2, 3):
        writer = from_environment()
        assert writer is not None
        writer.flit(clock, Direction.M2S, *IDLE)
    assert writer is not None
    writer.close()
    found = [flit.note or flit.clock for flit in read(tmp_path / "t")]
    assert found == [1, "reset", 2, "reset", 3]


def test_the_last_flits_of_a_failed_test_are_there(tmp_path: Path) -> None:
    """Check that flits reach the file in a process that ends by os._exit, without a flush."""
    script = f"""
import atexit, os
atexit.register(os._exit, 0)
os.environ["NF_LINK_TRACE"] = {str(tmp_path / "t")!r}
from cocotbext.cxl.wire.flits import Direction
from cocotbext.cxl.conftest import RunCocotb
from cocotbext.cxl.trace import from_environment
writer = from_environment()
writer.flit(7, Direction.M2S, 0x5555, 0)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=300)
    assert [flit.clock for flit in read(tmp_path / "t")] == [7]


def test_a_full_disk_ends_the_trace_and_not_the_test(caplog: pytest.LogCaptureFixture) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("/dev/full is not there")
    writer = TraceWriter(Path("/dev/full"))
    with caplog.at_level(logging.WARNING):
        for clock in range(2000):
            writer.flit(clock, Direction.M2S, *IDLE)
        writer.close()
    assert "the link trace /dev/full ends early: No space left on device" in caplog.text
    assert len(caplog.records) == 1


def test_a_trace_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(TraceError, match=r"^cannot write the link trace .*: File exists$"):
        TraceWriter(tmp_path / "file" / "trace")


def test_an_explained_trace(tmp_path: Path) -> None:
    """Check that a reset begins a new link, that phy_down does not, and the text of each flit."""
    writer = TraceWriter(tmp_path / "t")
    init = ProtocolCode.CACHEMEM.word, seal(encode_control(InitParam(63)))
    data = ProtocolCode.CACHEMEM.word, seal(sum((0xF0 + k) << 128 * k for k in range(4)))
    for note in ("reset", "phy_down"):
        writer.flit(1, Direction.S2M, *IDLE)
        writer.flit(2, Direction.S2M, *init)
        writer.note(note)
    writer.flit(5, Direction.S2M, *IDLE)
    writer.flit(6, Direction.S2M, *init)
    writer.flit(7, Direction.M2S, *data)
    writer.close()
    texts = [text for _, text in explain(read(tmp_path / "t"))]
    assert [text for text in texts if "\n" not in text] == ["reset", "phy_down"]
    assert ["! init: a second INIT.Param" in text for text in texts] == [False] * 7 + [True, False]
    assert texts[-1].startswith("7 5555 M2S ")


def test_slots_of_an_all_data_flit() -> None:
    text = describe(seal(sum((0xF1 + k) << 128 * k for k in range(4))), Direction.M2S, owed=4)
    slots = [line.split()[-1] for line in text.splitlines()[1:]]
    assert slots == [f"{0xF1 + k:02x}".ljust(32, "0") for k in range(4)]


def test_text_of_flits_that_are_not_taken_as_they_come() -> None:
    """Check the text of a discarded flit, of one that is no protocol flit, and of replays."""
    flit, owed = seal(sum((0xA4 + k) << 128 * k for k in range(4))), dict[Any, int]()

    def text(kind: FlitKind, pid: int = 0x5555, **fields: Any) -> list[str]:
        event = FlitEvent(Direction.M2S, 7, pid, flit, kind, **fields)
        return trace_text(event, owed).splitlines()

    head, *slots = text(FlitKind.DISCARDED)
    assert head == f"7 5555 M2S {FlitKind.DISCARDED.value}"
    assert slots == [f"  slot {k}: {flit >> 128 * k & (1 << 128) - 1:032x}" for k in range(4)]
    for kind in (FlitKind.NULL, FlitKind.UNEXPECTED, FlitKind.BAD_ID):
        assert text(kind, ProtocolCode.NULL.word) == [f"7 9999 M2S {kind.value} (NULL)"]
    assert text(FlitKind.BAD_ID, 0x1234) == [f"7 1234 M2S {FlitKind.BAD_ID.value}"]
    replayed = text(FlitKind.REPLAYED)
    assert "protocol flit" in replayed[0]
    assert replayed[0].endswith(" (replayed)")
    data = text(FlitKind.DATA, owed_before=4)
    assert "all-data flit" in data[0]
    assert text(FlitKind.REPLAYED) == [f"{data[0]} (replayed)", *data[1:]]
    control = text(FlitKind.CONTROL, owed_before=4, control=RetryFrame())
    assert "all-data" not in control[0]
    assert text(FlitKind.CONTROL, owed_before=4, control=UnknownControl(1, 2)) == data

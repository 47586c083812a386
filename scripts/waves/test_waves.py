# SPDX-License-Identifier: Apache-2.0
"""Tests of waves: the conversion of VCD files, messages, the view, and `nf waves`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pywellen

from scripts.cli import waves
from scripts.common.errors import NfError
from scripts.common.records import RunRecord
from scripts.waves import messages
from scripts.waves.fst_file import convert
from scripts.waves.view import view_of

HEADER = """$version x $end
$timescale 1ps $end
$scope module $rootio $end
$var wire 1 ! clk $end
$upscope $end
$scope module nf_controller $end
$var wire 1 ! clk $end
$var wire 4 " count [3:0] $end
$var
  wire 1 % irq
$end
$scope module $ivl_for_loop5 $end
$var integer 32 # i $end
$upscope $end
$scope module u_core $end
$scope module u_regions $end
$var wire 16 $ state_name [15:0] $end
$upscope $end
$upscope $end
$upscope $end
$enddefinitions $end
"""
BODY = """#0
$dumpvars
0!
bx "
b11 #
b100000101000010 $
x%
$end
#1000
1!
b11 "
#2000
0!
#3000
1!
b1z "
1%
#4000
0!
"""
TEXTS = {"requests": [(0.5, "first"), (2.2, "second")], "responses": []}


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "waves.vcd"
    path.write_text(HEADER + BODY, encoding="utf-8")
    return path


def changes(path: Path) -> dict[str, list[tuple[int, Any]]]:
    """Return (time, value) of each signal of an FST file, by its name."""
    return {one.full_name: list(one.tv) for one in pywellen.Waveform(str(path)).all_vars()}


def test_every_change_is_kept(dump: Path) -> None:
    target = dump.with_suffix(".fst")
    convert(dump, target, None, TEXTS)
    found = changes(target)
    assert found["nf_controller.clk"] == [(0, 0), (1000, 1), (2000, 0), (3000, 1), (4000, 0)]
    assert found["nf_controller.count"] == [(0, "xxxx"), (1000, 3), (3000, "001z")]
    assert found["nf_controller.irq"] == [(0, "x"), (3000, 1)]
    assert found["messages.requests"] == [(0, "-"), (500, "first"), (2200, "second")]
    assert sorted({name.split(".")[0] for name in found}) == ["messages", "nf_controller"]
    assert not any("ivl_for_loop" in name for name in found)


@pytest.mark.parametrize("window", [(2.5, 3.5), (-1.5, 0.0)])
def test_a_window_starts_with_all_values(dump: Path, window: tuple[float, float]) -> None:
    target = dump.with_suffix(".fst")
    convert(dump, target, window, TEXTS)
    found = changes(target)
    assert found["nf_controller.clk"][0] == (2500, 0)
    assert found["nf_controller.count"] == [(2500, 3), (3000, "001z")]
    assert found["messages.requests"][-1] == (2500, "second")
    assert max(time for rows in found.values() for time, _ in rows) <= 1000 * (window[1] or 4)


def test_a_window_longer_than_the_file_starts_at_0(dump: Path) -> None:
    target = dump.with_suffix(".fst")
    convert(dump, target, (-2000.0, 0.0), {"requests": [(9.0, "late")]})
    found = changes(target)
    assert found["nf_controller.clk"][0] == (0, 0)
    assert found["messages.requests"] == [(0, "-")]  # after the last time
    convert(dump, target, None, {"requests": [(9.0, "late")]})
    assert changes(target)["messages.requests"] == [(0, "-"), (9000, "late")]


@pytest.mark.parametrize("text", ["", "$timescale 1ps $end\n#1\n"])
def test_half_a_header_leaves_no_file(dump: Path, text: str) -> None:
    dump.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="no whole VCD file"):
        convert(dump, dump.with_suffix(".fst"))
    assert [*dump.parent.iterdir()] == [dump]


ENTRIES = [
    ("requests", "CONTRIBUTION region 0 selector 1 line 2", [0, 2], 7),
    ("requests", "RESULT region 1 selector 0 line 2", [1, 2], 3),
    ("memory_reads", "0x80 bookkeeping of region 0 line 2", [0, 2], None),
    ("responses", "NDR", [0, 2], None),
    ("requests", "RESULT region 0 selector 0 line 2", [0, 2], 7),
    ("responses", "DRS", [0, 2], None),
    ("failures", "MISMATCH: 1 data byte differs", [0, 2], None),
]


def log(folder: Path, cut: int = 0) -> None:
    """Write a log of messages, the last ``cut`` bytes missing."""
    names = ("signal", "text", "line", "epoch")
    rows = [
        json.dumps({"ns": 10.0 * n, **dict(zip(names, one, strict=True))})
        for n, one in enumerate(ENTRIES)
    ]
    data = "\n".join(rows).encode()
    (folder / messages.FILE).write_bytes(data[: len(data) - cut])


def test_the_history_of_the_failing_line(tmp_path: Path) -> None:
    log(tmp_path)
    rows = messages.line_history(messages.read(tmp_path))
    assert [row.split("ns  ")[1].split()[0] for row in rows] == [
        *("request", "memory_read", "response", "request", "response", "failure"),
    ]
    assert rows[0].endswith("line 2 epoch 7")
    assert rows[2].endswith("NDR (miss)")
    assert rows[4].endswith("DRS (hit)")


def test_a_cut_log_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    log(tmp_path, cut=5)
    found = messages.read(tmp_path)
    assert len(found) == len(ENTRIES) - 1
    assert messages.line_history(found) == ()  # nothing says which line failed
    assert messages.read(tmp_path / "none") == []


def test_the_view_names_signals_of_the_waves(dump: Path) -> None:
    target = dump.with_suffix(".fst")
    convert(dump, target, None, TEXTS)
    view = view_of(target, 3.0, "test seed 1")
    assert [one.name for one in view.groups["messages"]] == [
        *("messages.requests", "messages.responses"),
    ]
    (commit,) = view.groups["commit"]
    assert (commit.name, commit.bits) == ("nf_controller.u_core.u_regions.state_name", 16)
    gtkwave, surfer = view.write()
    text = gtkwave.read_text(encoding="utf-8")
    assert " 3000 -1 -1" in text  # the cursor
    assert "@28\nnf_controller.irq\n" in text  # binary
    assert "@820\nnf_controller.u_core.u_regions.state_name[15:0]\n" in text  # ASCII
    lines = surfer.read_text(encoding="utf-8").splitlines()
    assert {"variable_add messages.requests", "cursor_set 3000"} <= {*lines}


def test_the_view_of_a_block_has_its_ports(dump: Path) -> None:
    dump.write_text((HEADER + BODY).replace("nf_controller", "nf_fifo"), encoding="utf-8")
    target = dump.with_suffix(".fst")
    convert(dump, target)
    names = [one.name for one in view_of(target, None, "x").groups["nf_fifo"]]
    assert {"nf_fifo.clk", "nf_fifo.count", "nf_fifo.irq"} <= {*names}


@pytest.fixture
def recorded(
    dump: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    """Return a function that runs `nf waves` on one record, with changed fields."""
    convert(dump, dump.with_suffix(".fst"), None, TEXTS)
    log(dump.parent)
    red = RunRecord("x-s1", "test_x::y", "icarus", 1, "default", (), False, None, "why")
    monkeypatch.setattr(waves, "ROOT", dump.parent)
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)

    def run(fields: Mapping[str, Any], **options: Any) -> tuple[int, str]:
        record = replace(red, waves="waves.fst", **fields) if fields is not None else red
        monkeypatch.setattr(waves, "_record", lambda _id: record)
        known = {"id": None, "viewer": None, "no_open": False}
        code = waves.run(argparse.Namespace(**{**known, **options}))
        return code, capsys.readouterr().out

    return run


def test_without_a_display_the_files_are_named(recorded: Any) -> None:
    code, text = recorded({})
    assert code == 0
    assert "cursor at 60 ns: why" in text  # the time of the finding
    assert "open it with: " in text
    assert "(no display)" in text


def test_a_viewer_that_is_missing(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":1")
    monkeypatch.setenv("PATH", "")
    code, text = recorded({}, viewer="surfer")
    assert code == 2
    assert "open it with: surfer --command-file" in text
    assert "(no viewer is installed)" in text


def test_a_viewer_is_started(
    recorded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "gtkwave"
    program.write_text('#!/bin/sh\necho "$@" >"$0.words"\nexit 3\n', encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("DISPLAY", ":1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    assert recorded({}, viewer="gtkwave")[0] == 3
    words = (tmp_path / "gtkwave.words").read_text(encoding="utf-8").split()
    assert words[-1].endswith("waves.gtkw")


def test_waves_that_are_gone(recorded: Any, dump: Path) -> None:
    dump.with_suffix(".fst").unlink()
    with pytest.raises(NfError, match=r"waves.fst is gone; `nf rerun x-s1 --waves` writes it"):
        recorded({})


def test_damaged_waves_are_one_line(recorded: Any, dump: Path) -> None:
    dump.with_suffix(".fst").write_bytes(b"no FST")
    with pytest.raises(NfError, match="is no FST file"):
        recorded({})

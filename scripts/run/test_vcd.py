# SPDX-License-Identifier: Apache-2.0
"""Tests of trimmed VCD files: header, values at the start of the window, changes inside it only."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.run import vcd

WHOLE = Path(__file__).with_suffix(".vcd").read_text(encoding="utf-8")
HEADER = WHOLE.partition("#0")[0]
BODY = WHOLE.removeprefix(HEADER)


@pytest.fixture
def wave(tmp_path: Path) -> Path:
    path = tmp_path / "waves.vcd"
    path.write_text(WHOLE, encoding="utf-8")
    return path


def test_window(wave: Path) -> None:
    vcd.trim(wave, 2.5, 3.5)
    assert (
        wave.read_text(encoding="utf-8")
        == HEADER + '#2500\n$dumpvars\n1!\nb0011 "\n$end\n#3000\n0!\n'
    )


def test_whole_file_keeps_every_change(wave: Path) -> None:
    vcd.trim(wave, 0.0, 99.0)
    assert wave.read_text(encoding="utf-8").endswith(BODY)


def test_window_behind_the_end_has_the_last_values(wave: Path) -> None:
    vcd.trim(wave, 7.0, 9.0)
    assert (
        wave.read_text(encoding="utf-8") == HEADER + '#7000\n$dumpvars\n0!\nb1111 "\n$end\n#7000\n'
    )


def test_last_time(wave: Path) -> None:
    assert vcd.last_time_ns(wave) == 4.0


@pytest.mark.parametrize(
    "text", ["", "$timescale 1ps $end\n#1\n", HEADER.replace("timescale", "x")]
)
def test_no_vcd_file(wave: Path, text: str) -> None:
    wave.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="VCD file"):
        vcd.trim(wave, 0, 1)
    assert list(wave.parent.iterdir()) == [wave]  # nothing half written
    assert wave.read_text(encoding="utf-8") == text

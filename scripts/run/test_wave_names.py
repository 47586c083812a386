# SPDX-License-Identifier: Apache-2.0
"""Tests that states and codes of the RTL have readable names in waves (hdl/common/nf_wave.svh)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts.build import registry
from scripts.common import process
from scripts.common.paths import ROOT

HDL = ROOT / "hdl"
SOURCES = [
    *("pkg/nf_pkg.sv", "link/nf_link_pkg.sv", "pkg/nf_core_pkg.sv", "pkg/nf_wave_pkg.sv"),
    "link/nf_link_init.sv",
]


def texts(vcd: str, name: str) -> list[str]:
    """Return the successive values of the vector `name` in a VCD, decoded as ASCII."""
    code = re.search(rf"\$var \w+ \d+ (\S+) {name} ", vcd)
    assert code is not None, f"no {name} in the waves"
    found = re.findall(rf"^b([01]+) {re.escape(code[1])}$", vcd, re.MULTILINE)
    words = [int(bits, 2).to_bytes(32, "big").strip(b"\0").decode() for bits in found]
    return [w for i, w in enumerate(words) if i == 0 or w != words[i - 1]]


@pytest.mark.skipif(not registry.get("icarus").available(), reason="Icarus is not installed")
def test_states_have_names_in_waves(tmp_path: Path) -> None:
    files = [
        f"-I{HDL / 'common'}",
        *(str(HDL / name) for name in SOURCES),
        str(Path(__file__).with_suffix(".sv")),
    ]
    for words in (
        ["iverilog", "-g2012", "-s", "bench", "-o", "bench.vvp", *files],
        ["vvp", "bench.vvp"],
    ):
        done = process.captured(words, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    found = texts((tmp_path / "waves.vcd").read_text(encoding="utf-8"), "state_name")
    found = [name for name in found if name != "?"]  # ahead of the reset
    assert found == ["INIT_SILENT", "INIT_PARAM", "INIT_WAIT", "INIT_UP"]


def members() -> dict[str, list[str]]:
    """Return the members of every enum in the RTL packages, by name of the enum."""
    found: dict[str, list[str]] = {}
    for path in sorted(HDL.rglob("*_pkg.sv")):
        text = path.read_text(encoding="utf-8")
        for body, name in re.findall(r"typedef enum logic[^{]*\{([^}]*)\} (\w+);", text):
            found[name] = re.findall(r"^\s*(\w+)\s*=", body, re.MULTILINE)
    return found


def test_a_name_function_knows_every_member() -> None:
    text = (HDL / "pkg/nf_wave_pkg.sv").read_text(encoding="utf-8")
    functions = re.findall(r"(\w+)\(input (\w+) code\);(.*?)endfunction", text, re.DOTALL)
    enums = members()
    assert functions
    for function, enum, body in functions:
        assert function == enum.removesuffix("_e") + "_name"
        assert re.findall(r"`NF_NAME\((\w+)\)", body) == enums[enum], enum

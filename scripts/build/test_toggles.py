# SPDX-License-Identifier: Apache-2.0
"""The counting of toggles that replaces Verilator's own, compiled without a design."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.build import verilator
from scripts.common.records import BuildSpec, RunSpec

MAIN = """
#include "toggles.h"
#include <cstdio>
int main() {
    uint32_t counts[202] = {};
    CData four = 0;
    VL_COV_TOGGLE_CHG_ST_I(4, counts, (IData)(four) - (IData)(0x3fU), four);  // dirty above bit 3
    QData all = ~0ULL;
    VL_COV_TOGGLE_CHG_ST_Q(64, counts + 8, all, (QData)(0));
    EData now[2] = {0, ~0U}, before[2] = {1, 0};
    VL_COV_TOGGLE_CHG_ST_W(33, counts + 136, now, before);
    for (uint32_t one : counts) printf("%u", one);
}
"""


def test_a_toggle_counts_where_it_is(tmp_path: Path) -> None:
    """Bits above the width of an expression do not count for the signals after it."""
    (tmp_path / "toggles.h").write_text(verilator._TOGGLES, encoding="utf-8")
    (tmp_path / "main.cpp").write_text(MAIN, encoding="utf-8")
    found = verilator.find()
    assert found is not None
    include = Path(found).resolve().parents[1] / "include"
    words = ["g++", "-std=c++17", f"-I{include}", f"-I{include}/vltstd", "main.cpp"]
    subprocess.run([*words, "-o", "main"], cwd=tmp_path, check=True)
    text = subprocess.run(
        [tmp_path / "main"], check=True, capture_output=True, encoding="utf-8"
    ).stdout
    # Pairs of fall and rise. 0 - 0x3f is ..0001 in four bits; then 64 rises; then a fall of bit 0
    # and a rise of bit 32.
    assert text[:8] == "01000000"
    assert text[8:136] == "01" * 64
    assert text[136:] == "10" + "00" * 31 + "01"


def test_what_is_drawn_at_power_on_is_no_toggle() -> None:
    """Registers start at drawn values, but not where each such bit would count as reached."""
    for coverage, start in ((False, "2"), (True, "0")):
        build = BuildSpec("verilator", "nf_link", "hdl/link/nf_link.f", coverage=coverage)
        spec = RunSpec(build, "test_link_block", seed=7)
        words = verilator.Verilator.run_arguments(spec, Path("run"))
        assert words[:2] == [f"+verilator+rand+reset+{start}", "+verilator+seed+7"]

# SPDX-License-Identifier: Apache-2.0
"""Tests of the toggle counter that replaces Verilator's own, compiled without a design."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scripts.build import verilator
from scripts.common.records import BuildSpec, RunSpec


def test_a_toggle_counts_where_it_is(tmp_path: Path) -> None:
    """Check that toggles are counted for the right bits.

    Bits above the width of an expression must not count for the signals after it.
    """
    main = Path(__file__).with_suffix(".cpp")
    found = verilator.find()
    assert found is not None
    include = Path(found).resolve().parents[1] / "include"
    words = ["g++", "-std=c++17", f"-I{include}", f"-I{include}/vltstd", str(main)]
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
    """Check that registers start at random values, but at 0 with code coverage.

    There each random bit would count as a toggle.
    """
    for coverage, start in ((False, "2"), (True, "0")):
        build = BuildSpec("verilator", "nf_link", "hdl/link/nf_link.f", coverage=coverage)
        spec = RunSpec(build, "test_link_block", seed=7)
        words = verilator.Verilator.run_arguments(spec, Path("run"))
        assert words[:2] == [f"+verilator+rand+reset+{start}", "+verilator+seed+7"]

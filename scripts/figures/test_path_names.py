# SPDX-License-Identifier: Apache-2.0
"""Modules of the signals of a path, by hand and in the sources."""

from __future__ import annotations

import re

from scripts.common.paths import ROOT
from scripts.figures import synth_figure

OTHER = {"nf_ecp5_chain": {"u_pair"}}
"""Instances of cells of a library."""
TEXT = """
  nf_fifo #(.WIDTH(f(3)), .DEPTH(4)) u_queue (
    .clk, .in_valid (u_other.x)
  );
  if (FAST) begin : g_fast
    nf_quick u_vote (.clk);
  end else begin : g_slow
    nf_vote #(
      .CNT_W(CNT_W)
    ) u_vote (.clk);
  end
  // nf_gone u_gone (
"""


def test_owners_by_hand() -> None:
    of = synth_figure.instances([("nf_top", TEXT), ("nf_vote", "  nf_pick u_pick (")])
    assert synth_figure.owners("nf_top", "u_queue.count_q", of) == ["nf_top", "nf_fifo"]
    assert synth_figure.owners("nf_top", "g_fast.u_vote.sum", of) == ["nf_top", "nf_quick"]
    below = ["nf_top", "nf_vote", "nf_pick"]
    assert synth_figure.owners("nf_top", "g_slow.u_vote.g_odd[3].u_pick.a[1]", of) == below
    assert synth_figure.owners("nf_top", "line_q", of) == ["nf_top"]
    assert synth_figure.owners("nf_top", "u_gone.a", of) == ["nf_top"]


def test_every_instance_of_the_sources_is_of_a_module() -> None:
    """An instance that is written in another way would be explained by its neighbour."""
    files, of = synth_figure.sources()
    for module, inside in of.items():
        text = re.sub(r"//.*", "", files[module].read_text(encoding="utf-8"))
        wanted = {found[1] for found in re.finditer(r"\b(u_\w+)\s*\(", text)}
        assert wanted == {name for name in inside if "." not in name} | OTHER.get(module, set())
        assert set(inside.values()) <= set(files), module
    assert files["nf_engine"] == ROOT / "hdl/engine/nf_engine.sv"


def test_what_a_module_is_stands_in_its_header() -> None:
    told = synth_figure.explained("nf_engine", ["u_written.u_ask.x", "u_written.y", "s0"])
    assert [one.partition(":")[0] for one in told] == ["nf_written", "nf_ram_guard"]
    assert all(len(one) > 40 and one.endswith(".") for one in told)

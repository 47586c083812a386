# SPDX-License-Identifier: Apache-2.0
"""Tests of `nf train nodes`: messages without network namespaces, and for wrong words."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from scripts.cli import nodes
from scripts.cli.conftest import Nf
from scripts.cli.main import main
from scripts.common.errors import NfError
from scripts.ranks import node_network

pytest.importorskip("torch", reason="torch is not installed: see requirements-torch.txt")


def test_rates() -> None:
    assert node_network.bytes_a_second("1gbit") == 125e6
    assert node_network.bytes_a_second("10mbit") == 1.25e6
    for bad in ("fast", "0mbit", "1gb", "-1gbit"):
        with pytest.raises(SystemExit):
            main(["train", "nodes", "--rate", bad])


def test_a_flip_belongs_to_the_cut() -> None:
    good = [(4, "rejected"), (25, "admitted"), (45, "rejected")]
    assert nodes.flips_and_returns(good)
    assert not nodes.flips_and_returns(good[:2])
    assert not nodes.flips_and_returns([good[0], (15, "admitted"), (45, "rejected")])
    assert not nodes.flips_and_returns([(4, "rejected"), (25, "admitted"), (30, "rejected")])
    assert not nodes.flips_and_returns([])
    # Step 40 is the first after the cut, and step 20 the first in it.
    assert nodes.flips_and_returns([good[0], (20, "admitted"), (40, "rejected")])
    assert not nodes.flips_and_returns([good[0], (19, "admitted"), (40, "rejected")])
    assert not nodes.flips_and_returns([good[0], (40, "admitted"), (45, "rejected")])


def test_what_is_trained_is_a_mib() -> None:
    """Check that the constant GRADIENTS is the number of low-bit gradient bytes of the trained net.

    The verb needs it without an import of torch.
    """
    ranks = pytest.importorskip("scripts.ranks.node_ranks")
    weights = [one for one in ranks.net().parameters() if one.dim() > 1]
    assert sum(4 * one.numel() for one in weights) == nodes.GRADIENTS


def test_without_root_one_line_says_so(monkeypatch: pytest.MonkeyPatch, nf: Nf) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/sbin/ip")
    monkeypatch.setattr(nodes, "_alike", lambda *_: [])
    monkeypatch.setattr(nodes, "_killed", lambda *_: ["node 1: hangs"])
    out = nf("train", "nodes", "--rate", "1gbit", "--nodes", "3", code=1)
    first, last = out.splitlines()
    assert first == (
        "plain processes without a rate (network namespaces need root): the slow link is left out"
    )
    assert last == "nf train nodes: 3 nodes, 1 wrong"


def test_a_tool_that_fails_is_one_line_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[tuple[str, ...]] = []

    def refused(command: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        called.append(tuple(command[1:4]))
        return subprocess.CompletedProcess(command, 1, "", "Operation not permitted\n")

    monkeypatch.setattr(subprocess, "run", refused)
    with (
        pytest.raises(NfError, match=r"netns add .*: Operation not permitted"),
        node_network.namespaces(2, "1gbit"),
    ):
        pass
    assert [one[:2] for one in called[1:]] == [("netns", "del")] * 3


@pytest.mark.nightly("two processes import torch and train for a while")
def test_two_nodes(nf: Nf) -> None:
    out = nf("train", "nodes", "--nodes", "2")
    assert f"ok   {nodes.STEPS} steps alike on 2 nodes" in out
    assert "ok   a node killed" in out

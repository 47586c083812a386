# SPDX-License-Identifier: Apache-2.0
"""`nf train nodes`: trains with low-bit gradients on several emulated nodes.

It checks equal decisions on all nodes, a link that is slow for a while, and the death of a node.

examples:
  nf train nodes --nodes 4 --rate 1gbit    a network namespace per node, links of 1 Gbit/s (root)
  nf train nodes                           plain processes, without root
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuron_fabric.capacity.substrate import Substrate, shipped, write_substrate
from neuron_fabric.data import DataError, read_object
from neuron_fabric.errors import say
from neuron_fabric.launcher import meeting_point
from neuron_fabric.printable import one_line
from scripts.common import folder_locks, process
from scripts.common.arguments import up_to
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.ranks import node_network
from scripts.ranks.launch import need_torch
from scripts.ranks.node_network import Nodes, bytes_a_second, rate_of

RANKS = "scripts.ranks.node_ranks"
STEPS, CUT_AT, CUT_FOR = 120, 20, 20
CUT = "10mbit"
DIES_AT = 10
TIMEOUT_S = 30.0
"""Seconds that the others wait for a lost node."""
GRADIENTS = 1 << 20
"""Bytes of the low-bit regions of the trained net (`node_ranks.net`)."""
SLOWER = 8.0
"""Packing time of the modelled host relative to an FP32 reduction on the fast network."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf train nodes`."""
    add, what = parser.add_argument, "rate of the links, such as 1gbit; requires root"
    add("--nodes", type=up_to(16, first=2), default=4, metavar="N", help="number of nodes (4)")
    add("--rate", type=rate_of, metavar="RATE", help=what)


def run(args: argparse.Namespace) -> int:
    """Run both checks (equal decisions, death of a node); return 0 if they pass, else 1.

    Raises:
        NfError: torch or the nodes are not available, or a node ends too early.
    """
    need_torch("nf train nodes")
    folder_locks.tree()
    with _nodes(args) as nodes, tempfile.TemporaryDirectory(prefix="nf-nodes-") as folder:
        wrong = _alike(args, nodes, Path(folder, "alike"))
        wrong += _killed(args, nodes, Path(folder, "killed"))
    say(f"nf train nodes: {args.nodes} nodes, {f'{len(wrong)} wrong' if wrong else 'clean'}")
    return 1 if wrong else 0


@contextlib.contextmanager
def _nodes(args: argparse.Namespace) -> Iterator[Nodes]:
    """Context of the nodes: network namespaces with rate limits, or plain processes otherwise.

    The reason for plain processes is printed.
    """
    why = node_network.why_not() if args.rate else "no --rate"
    if why:
        say(f"plain processes without a rate ({why}): the slow link is left out")
        yield node_network.plain(args.nodes)
        return
    with node_network.namespaces(args.nodes, args.rate) as nodes:
        yield nodes


def _alike(args: argparse.Namespace, nodes: Nodes, folder: Path) -> list[str]:
    """Train on all nodes, and check that all decide the same and end with the same weights.

    With rate limits, one link is slowed down for a while, and low-bit must be admitted during that
    time only.

    Returns:
        An error line for each fault.
    """
    substrate = folder / "substrate.toml" if nodes.limit else None
    folder.mkdir()
    if substrate:
        ring = 2 * (args.nodes - 1) / args.nodes * GRADIENTS / bytes_a_second(args.rate)
        known = replace(shipped().coefficients, pack_rate=GRADIENTS / (SLOWER * ring))
        write_substrate(substrate, Substrate("slow host", "made up by nf train nodes", known))
    running = _start(args, nodes, folder, STEPS, substrate)
    if nodes.limit:
        last = args.nodes - 1
        for step, rate in ((CUT_AT, CUT), (CUT_AT + CUT_FOR, args.rate)):
            _wait_for(running, folder, step)
            nodes.limit(last, rate)
            say(f"step {step}: the link of node {last} has {rate}")
    ended = _wait_for_end(running, folder, 20 * TIMEOUT_S)
    wrong = [
        f"node {n} ended with code {one['code']}: {one.get('error') or 'nothing was left'}"
        for n, one in enumerate(ended)
        if one["code"] != 0
    ]
    wrong += [
        f"node {n} has other {key} than node 0"
        for key in ("routes", "decisions", "weights")
        for n, one in enumerate(ended)
        if one["code"] == 0 and one.get(key) != ended[0].get(key)
    ]
    decisions = ended[0].get("decisions", [])
    flips = list(
        dict.fromkeys((one[0], one[2]) for one in decisions if one[1] and one[3] == "capacity")
    )
    words = ", ".join(f"{step} {target}" for step, target in flips)
    if nodes.limit and not wrong and not flips_and_returns(flips):
        wrong.append(f"capacity did not flip and return: {words or 'no decision'}")
    how = f"capacity: {words}" if words else f"{len(decisions)} decisions"
    say(f"{'FAIL' if wrong else 'ok':4} {STEPS} steps alike on {args.nodes} nodes; {how}", *wrong)
    return wrong


def flips_and_returns(flips: Sequence[tuple[int, str]]) -> bool:
    """Return whether low-bit is admitted while the link is slow, and rejected before and after.

    The link changes after a number of steps counted from 0, so the step of that number is the first
    on the changed link.

    Args:
        flips: Decisions as (step, "admitted" or "rejected").
    """
    end = CUT_AT + CUT_FOR
    before = [target for step, target in flips if step < CUT_AT]
    return (
        before[-1:] == ["rejected"]
        and any(CUT_AT <= step < end and target == "admitted" for step, target in flips)
        and any(step >= end and target == "rejected" for step, target in flips)
    )


def _killed(args: argparse.Namespace, nodes: Nodes, folder: Path) -> list[str]:
    """Kill one node during a training, and check that all others end with an error in time.

    Returns:
        An error line for each node that does not.
    """
    folder.mkdir()
    running = _start(args, nodes, folder, 10_000, None)
    _wait_for(running, folder, DIES_AT)
    running[-1].kill()
    begin = time.monotonic()
    ended = _wait_for_end(running[:-1], folder, 2 * TIMEOUT_S)
    wrong = [
        f"node {n}: " + ("hangs" if one["code"] is None else "ended as if nothing had been")
        for n, one in enumerate(ended)
        if one["code"] in (None, 0) or not one.get("error")
    ]
    running[-1].wait()
    took = time.monotonic() - begin
    why = one_line(str(ended[0].get("error", "")), 100)
    word = "FAIL" if wrong else "ok"
    say(f"{word:4} a node killed: the others end in {took:.1f} s ({why})", *wrong)
    return wrong


def _start(
    args: argparse.Namespace, nodes: Nodes, folder: Path, steps: int, substrate: Path | None
) -> list[process.Child]:
    """Start a training process on every node, with one log per node.

    Args:
        args: Command line.
        nodes: Nodes.
        folder: Folder of logs and results.
        steps: Number of training steps.
        substrate: File with measured speeds of the host; None for the default.
    """
    started = []
    env = {**os.environ, **nodes.env, **meeting_point(nodes.address), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", RANKS, str(folder), str(steps), str(TIMEOUT_S)]
    words += [str(substrate)] if substrate else []
    for rank, prefix in enumerate(nodes.prefix):
        own = {**env, "RANK": str(rank), "WORLD_SIZE": str(args.nodes)}
        with (folder / f"log-{rank}").open("wb") as log:
            started.append(process.start([*prefix, *words], log, cwd=ROOT, env=own))
    return started


def _wait_for(running: list[process.Child], folder: Path, step: int) -> None:
    """Wait until node 0 has completed a training step.

    Raises:
        NfError: A node ends before; all others are killed.
    """
    path = folder / "progress-0"
    while not path.is_file() or int(path.read_text(encoding="utf-8") or "0") < step:
        gone = [rank for rank, one in enumerate(running) if one.poll() is not None]
        if gone:
            for one in running:
                one.kill()
            log = (folder / f"log-{gone[0]}").read_text(encoding="utf-8", errors="replace")
            said = [line for line in log.splitlines() if line.strip()] or ["no message"]
            left = _left(folder, gone[0]).get("error") or said[-1]
            raise NfError(f"nf train nodes: node {gone[0]} ended before step {step}: {left}.")
        time.sleep(0.02)


def _wait_for_end(
    running: list[process.Child], folder: Path, timeout_s: float
) -> list[dict[str, Any]]:
    """Wait for all nodes, at most ``timeout_s``; kill those that remain.

    Returns:
        The result file of each node, and its exit ``code``; None if it had to be killed.
    """
    until, ended = time.monotonic() + timeout_s, []
    for rank, one in enumerate(running):
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = one.wait(max(0.1, until - time.monotonic()))
        if code is None:
            one.kill()
            one.wait()
        ended.append({**_left(folder, rank), "code": code})
    return ended


def _left(folder: Path, rank: int) -> dict[str, Any]:
    """Return the result file that a node has written; {} if there is none."""
    try:
        return dict(read_object(folder / f"rank-{rank}.json"))
    except (OSError, DataError):
        return {}

# SPDX-License-Identifier: Apache-2.0
"""`nf train check gpu`: low-bit gradients on a GPU, compared bit by bit with those of the host."""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from neuron_fabric.errors import say
from scripts.common.errors import NfError
from scripts.ranks import node_network
from scripts.ranks.launch import rank_run

NAME, CUDA, CPU = "gpu", "cuda", "cpu"
RANKS, WORKERS = "scripts.ranks.engine_ranks", 4
GOAL = 0.6
"""Least rate of packing 1 bit, over that of a device copy."""


def run(args: argparse.Namespace) -> int:
    """Run all parts on a device, print a verdict per line; return 1 if one is wrong, else 0.

    On the CPU the same code runs without a GPU, and rates have no goal.

    Raises:
        NfError: torch or the GPU is missing, or a rank has failed.
    """
    start = time.monotonic()
    say(f"nf train check gpu: {_device_name(args.device)}")
    wrong = 0
    for label, workers, parts in _jobs(args.device):
        found = _ran(workers, args.device, parts, args.fault)
        for name, difference in found["lines"]:
            wrong += bool(difference)
            what = f"{label}: {name}"
            say(f"FAIL {what}: {difference}" if difference else f"ok   {what}")
        for line, good in _rates(found["speeds"], args.device):
            wrong += not good
            say(line)
    verdict = f"{wrong} wrong" if wrong else "all right"
    say(f"nf train check gpu: {verdict}, {time.monotonic() - start:.0f} s")
    return int(wrong > 0)


def _jobs(device: str) -> Iterator[tuple[str, int, str]]:
    """Yield label, number of ranks and parts of each process group."""
    yield "one rank", 1, "codec,speed"
    yield f"{WORKERS} gloo ranks", WORKERS, "buckets,capture,setups"
    if device == CUDA:
        yield "one NCCL rank", 1, "buckets,capture,setups"


def _device_name(device: str) -> str:
    """Return the name of the device. Raise NfError if it, or torch, is missing."""
    if importlib.util.find_spec("torch") is None:
        raise NfError("torch is not installed: `make torch`.")
    import torch

    if device == CPU:
        return f"torch {torch.__version__}, CPU tensors"
    if not torch.cuda.is_available():
        raise NfError("no GPU that torch can use is here; --device cpu runs the same code without.")
    return f"torch {torch.__version__}, {torch.cuda.get_device_name()}"


def _ran(workers: int, device: str, parts: str, fault: bool) -> Mapping[str, Any]:
    words = [device, parts, str(int(fault))]
    nodes = node_network.plain(workers)
    return rank_run(nodes, RANKS, words, {"OMP_NUM_THREADS": "1"})


def _rates(speeds: Sequence[tuple[str, float, int]], device: str) -> Iterator[tuple[str, bool]]:
    """Yield a line for each measured rate, and whether it reaches its goal."""
    rates = {name: size / max(seconds, 1e-9) for name, seconds, size in speeds}
    for name, rate in rates.items():
        share = rate / rates["copy"]
        goal = name == "1 bit" and device == CUDA
        good = share >= GOAL or not goal
        wanted = f", goal >= {GOAL}" if goal else ""
        word = "ok  " if good else "FAIL"
        yield f"{word} {name}: {rate / 1e9:.1f} GB/s, {share:.2f} of a copy{wanted}", good

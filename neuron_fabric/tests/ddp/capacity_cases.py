# SPDX-License-Identifier: Apache-2.0
"""Cases of the laws: `attach` with a substrate file; as counts of differences (0: it holds)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from neuron_fabric.codec import Route
from neuron_fabric.hook import attachment
from neuron_fabric.hook.capacity import Substrate, shipped, write_substrate
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.tests.ddp.attach_cases import Call, call_of, refused
from neuron_fabric.tests.ddp.law_cases import Case
from neuron_fabric.tests.ddp.law_ranks import Ranks, patched

STEPS = 12


def slow_host(folder: str, rank: int, pack_rate: float = 1e3) -> Path:
    """A substrate whose host packs a kilobyte a second: no network is slower."""
    path = Path(folder, f"slow-{rank}.toml")
    known = replace(shipped().coefficients, pack_rate=pack_rate)
    write_substrate(path, Substrate("slow", "by nobody", known))
    return path


def vetoed(ranks: Ranks, workers: int, wrong: bool = False) -> int:
    """No region ever takes its route, and the log says of both that have one why; the twin has no
    substrate file, and one line says so."""
    folder = Path(ranks.folder, f"capacity-{wrong}")
    lines: list[str] = []
    with patched(attachment, "warn", lines.append):
        call = call_of(ranks, workers, lambda call: None)
        path = None if wrong else slow_host(ranks.folder, ranks.rank)
        runtime = attachment.attach(call.model, call.path, substrate=path, monitor=folder, env={})
    assert runtime is not None
    used = set()
    for step in range(STEPS):
        draw = torch.Generator().manual_seed(10 * step + ranks.rank)
        call.model(torch.randn(8, 128, generator=draw)).square().mean().backward()
        used |= {how.route for how in runtime.routes.values()}
    runtime.close()
    found = int(used != {Route.FP32})
    told = any("no substrate file" in line for line in lines)
    if ranks.rank == 0:
        [segment], left_out = monitor_log.read(folder / monitor_log.NAME)
        rejected = {one["region"] for one in segment.capacity if not one["admitted"]}
        found += int(rejected != {"wide", "c"}) + len(left_out) + int(told)
        found += sum(not one["t_low"] > one["t_fp32"] > 0 for one in segment.capacity)
    return found


def _one_rank(call: Call) -> None:
    if call.ranks.rank == 1:
        call.words["substrate"] = slow_host(call.ranks.folder, 1)


def _other(call: Call) -> None:
    rank = call.ranks.rank
    call.words["substrate"] = slow_host(call.ranks.folder, rank, 1e3 * (1 + rank))


def _no_file(call: Call) -> None:
    call.words["substrate"] = call.path / "below a file"


CASES: list[tuple[str, int, Case]] = [
    ("capacity vetoes what does not pay", 2, vetoed),
    ("twin: capacity vetoes what does not pay", 2, partial(vetoed, wrong=True)),
    *(
        (f"refused: {name}", 2, partial[Any](refused, change=change, sentence=sentence))
        for name, change, sentence in (
            ("one rank's substrate", _one_rank, "rank 1 has another profile"),
            ("another substrate", _other, "rank 1 has another profile"),
            ("no substrate", _no_file, "cannot be read|Not a directory"),
        )
    ),
]
"""Name, workers, and what counts what is wrong."""

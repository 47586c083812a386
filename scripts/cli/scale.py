# SPDX-License-Identifier: Apache-2.0
"""`nf train scale`: applies a profile to the tensor shapes of a model of a billion parameters.

It can drive the model's low-bit step, with random gradients, through the hook or the RTL.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from models.modes import Mode
from neuron_fabric.capacity import scale_command
from neuron_fabric.capacity.scale_command import LowStep
from neuron_fabric.capture import TensorSpec
from neuron_fabric.errors import CaptureError, say
from scripts.build import registry
from scripts.cli.options import add_sim
from scripts.common.arguments import add_flags, add_jobs, positive
from scripts.common.errors import BuildError, NfError
from scripts.common.memory_options import add_memory, memory_of
from scripts.farm.replay_pieces import Pieces
from scripts.farm.replay_run import line_progress
from scripts.ranks import node_network
from scripts.ranks.launch import rank_run
from scripts.run.replay_simulators import Simulators, stimulus_command
from verif.mem.memory_timing import MemoryTiming
from verif.replay.bulk.bulk_transport import BulkTransport
from verif.replay.gradient_source import SyntheticSource
from verif.replay.job import planned
from verif.replay.options import EPOCH_LINES_LOG2, SLOW_LINES_LOG2, ReplayOptions
from verif.replay.runner import Runner

EXAMPLES = f"""{scale_command.EXAMPLES.rstrip()}
  nf train scale gpt-1.3b --hook             the hook over all its buckets, by 4 gloo ranks
  nf train scale gpt-1.3b --replay           its low-bit step, and 1 % of the rest, through the RTL
"""
HOOK_RANKS, MOST_MEMORY = 4, 1 << 30
"""Ranks of `--hook`, and the most bytes that a rank may take."""
_RANKS = "scripts.ranks.scale_ranks"
SHARE = 100
"""One in so many elements of the FP32 rest is driven."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf train scale`: those of shapes alone, then of the two real runs."""
    scale_command.add_arguments(parser)
    add = parser.add_argument
    add_flags(parser, replay="drive the low-bit step through the RTL")
    add_flags(parser, hook="a step of the hook itself, with drawn gradients")
    add_sim(add, "simulator of --replay")
    add("--seed", type=positive, default=1, help="of the gradients of --replay (1)")
    add_memory(parser, str(MemoryTiming().latency))
    add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    """Print the bytes of a step, then do the real runs that were asked for; return the exit
    code.

    The simulator is looked for first: a missing one is reported before anything is computed."""
    if args.replay:
        registry.choose(args.sim)
    replay = partial(replayed, args) if args.replay else None
    return scale_command.run(args, replay, partial(hooked, args) if args.hook else None)


def hooked(args: argparse.Namespace) -> int:
    """Run a step of the DDP hook with random gradients on 4 local ranks, and print the results.

    Returns:
        Exit code: 1 if ranks differ, no region is low-bit, or a rank takes more than 1 GiB; else 0.
    """
    words = [args.model, str(args.route), str(int(args.cap * (1 << 20)))]
    found = rank_run(node_network.plain(HOOK_RANKS), _RANKS, words)
    lines, good = told_of_hook(found["ranks"])
    say(*lines, flush=True)
    return int(not good)


def told_of_hook(ranks: Sequence[Mapping[str, Any]]) -> tuple[list[str], bool]:
    """Return the lines to print about the results of the ranks, and whether they are as required.

    Required: equal gradients and decisions on all ranks, at most 1 GiB each, a low-bit region.
    """
    first, most = ranks[0], max(one["memory"] for one in ranks)
    alike = all(one[key] == first[key] for one in ranks for key in ("digest", "decisions", "sent"))
    sent = ", ".join(f"{name} {size / (1 << 20):,.1f} MiB" for name, size in first["sent"].items())
    lines = [
        f"hook: {first['buckets']} buckets by {len(ranks)} gloo ranks, "
        f"{max(one['seconds'] for one in ranks):.1f} s; {first['low']} regions low-bit",
        f"  sent by each: {sent}; {len(first['decisions'])} decisions",
        f"  gradients and decisions {'equal on all' if alike else 'DIFFER between'} ranks "
        f"(blake2b {first['digest'][:12]})",
        f"  {most / (1 << 20):,.0f} MiB a rank at most, of 1,024",
    ]
    return lines, alike and most <= MOST_MEMORY and first["low"] > 0


def replayed(args: argparse.Namespace, step: LowStep) -> int:
    """Replay a low-bit step with random gradients of its shapes through the RTL in bulk.

    All low-bit tensors are driven, and one in SHARE elements of those that use FP32.

    Args:
        args: Command line.
        step: Shapes and routes of the step.

    Returns:
        Exit code: 1 if a line is wrong, else 0.
    """
    if not step.votes:
        raise NfError("no bucket is low-bit, so there is nothing to replay.")
    tensors = [TensorSpec(one.name, tuple(one.shape)) for one in step.votes]
    wanted = {spec.name: Mode[step.route] for spec in tensors}
    rest = TensorSpec(f"one in {SHARE} of the rest", (step.rest // SHARE,))
    if rest.elements:
        tensors.append(rest)
        wanted[rest.name] = Mode.FP32
    fast = registry.get(args.sim).compiles_slowly
    options = ReplayOptions(
        seed=args.seed,
        workers=step.workers,
        epoch_lines_log2=EPOCH_LINES_LOG2 if fast else SLOW_LINES_LOG2,
        memory=memory_of(args, args.memory_latency),
    )
    name = f"synthetic {step.model}"
    source = SyntheticSource(
        name, tuple(tensors), step.workers, wanted, options.ratio, options.seed
    )
    simulators = Simulators(command="nf train scale")
    try:
        replay = planned(source, name, options, design=simulators.design())
        model = simulators.bulk(args.sim, options.parameters)
    except CaptureError as error:
        raise NfError(f"{error}.") from None
    except BuildError as error:
        raise NfError(f"the RTL does not compile: {error}.") from None
    folder = simulators.workspace(f"scale-{args.sim}")

    def transport(sim: str) -> BulkTransport:
        again = partial(stimulus_command, sim=sim)
        return BulkTransport(replay, sim, folder, model, ahead=args.jobs != 1, again=again)

    now, spread = time.monotonic(), Pieces(args.jobs)
    runner = Runner(replay, None, False, start=now, spread=spread, progress=line_progress)
    return runner.run([args.sim], transport)

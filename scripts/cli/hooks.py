# SPDX-License-Identifier: Apache-2.0
"""`nf measure hooks`: compares communication hooks over a training script of yours.

It runs the script with plain DDP, with hooks of torch and with each route of this runtime, by gloo
ranks over a loopback and over links of limited rates, and prints a table in Markdown. The script
needs no change: `scripts.ranks.hook_launcher` registers the hook on its model.

examples:
  nf measure hooks train gpt                 a GPT of 1.4 M parameters, of the examples
  nf measure hooks --rates 1gbit,30mbit --seeds 3 -- train.py --lr 1  your own script
  nf measure hooks --hooks 'DDP,G_*' --steps 50 train gpt  some hooks, and fewer steps
"""

from __future__ import annotations

import argparse
import fnmatch
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuron_fabric import output
from neuron_fabric.calibration.verification import MOST_SEEDS, SEEDS, Paired
from neuron_fabric.errors import say
from scripts.cli.capture import script_path
from scripts.common import folder_locks
from scripts.common.arguments import positive, up_to
from scripts.common.paths import BUILD, shown
from scripts.ranks import node_network
from scripts.ranks.launch import need_torch, rank_run
from scripts.ranks.node_network import LOOPBACK, Nodes, rate_of
from scripts.report.chart import render

RANKS = "scripts.ranks.hook_launcher"
DDP = "DDP"
HOOKS = (
    *(DDP, "bf16", "PowerSGD rank 1", "PowerSGD rank 2"),
    *("FP32", "FP32 rank 6", "G_BINARY vote", "G_BINARY net", "G_TERNARY", "G_INT4", "G_INT8"),
)
"""Rows of the table, as `hook_launcher.register` takes them; those from FP32 on are ours."""
TRIED = (
    *("embedding G_INT8 fed", "embedding G_INT4 fed", "embedding G_TERNARY fed"),
    *("embedding G_BINARY fed", "embedding FP32 rank 4", "DDP every 3 steps"),
)
"""Rows of what was tried for fewer bytes of the embedding; they are measured where `--hooks` names
them."""
STEPS, LINK_STEPS = 200, 20
"""Measured steps on the loopback, and at most on a limited link: losses are the same there."""
RATES = ("100mbit", "30mbit")
EQUAL = 0.02
"""Losses count as equal if they differ by at most this share."""
PICTURE = BUILD / "hooks.svg"
_MILLI = 1e3

Found = Mapping[tuple[str, str], Sequence[Mapping[str, float]]]
"""Results of `hook_launcher.StepMeter` by hook and network, one for each seed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf measure hooks`; the words after the script belong to the script."""
    add = parser.add_argument
    parser.usage = (
        "nf measure hooks [--hooks GLOBS] [--rates RATES] [--seeds N] [--steps N]\n"
        "       [--workers N] [--svg FILE] [--] SCRIPT [ARGS]"
    )
    add("--hooks", type=hooks_of, default=HOOKS, metavar="GLOBS", help="such as 'DDP,G_*' (all)")
    what = f"rates of links ({','.join(RATES)}); 'none': the loopback only"
    add("--rates", type=rates_of, default=RATES, metavar="RATES", help=what)
    add("--seeds", type=positive, default=1, metavar="N", help="NF_SEED is 1 to N (1)")
    add("--steps", type=positive, default=STEPS, metavar="N", help=f"steps to measure ({STEPS})")
    add("--workers", type=up_to(16, first=2), default=4, metavar="N", help="gloo ranks (4)")
    add("--svg", type=Path, default=PICTURE, metavar="FILE", help=f"drawing ({shown(PICTURE)})")
    add("script", metavar="SCRIPT", help="a script that makes a DistributedDataParallel model")
    add("args", nargs=argparse.REMAINDER, metavar="ARGS", help="its own arguments")


def hooks_of(text: str) -> tuple[str, ...]:
    """Return the hooks that globs with commas select, in the order of `HOOKS`, DDP always."""
    globs = [one.strip() for one in text.split(",")]
    known = (*HOOKS, *TRIED)
    for one in globs:
        if not fnmatch.filter(known, one):
            raise argparse.ArgumentTypeError(f"no hook {one!r}; there are: {', '.join(known)}")
    return tuple(
        hook for hook in known if hook == DDP or any(fnmatch.fnmatch(hook, one) for one in globs)
    )


def rates_of(text: str) -> tuple[str, ...]:
    """Return rates in the notation of tc, separated by commas; none for "none"."""
    return () if text == "none" else tuple(rate_of(one.strip()) for one in text.split(","))


def run(args: argparse.Namespace) -> int:
    """Run the trainings, print the table, write the drawing, and return 0.

    Raises:
        NfError: torch is not installed, the script is missing, or a rank has failed.
    """
    script = script_path(args.script)
    need_torch("nf measure hooks")
    folder_locks.tree()
    output.check_output(args.svg, "--svg")
    rates = args.rates
    if rates and (why := node_network.why_not()):
        say(f"links of a limited rate are left out ({why})")
        rates = ()
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    words = " ".join([args.script, *args.args])
    say(f"{words}: {args.workers} gloo ranks on {cores} cores, load {load:.1f} before", flush=True)
    found: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for seed in range(1, args.seeds + 1):
        for network in (LOOPBACK, *rates):
            with node_network.network(args.workers, network) as nodes:
                for hook in args.hooks:
                    found.setdefault((hook, network), []).append(
                        _measured(nodes, hook, network, seed, script, args)
                    )
    say("", *table(found), "", *parts(found), *rows(found), *winners(found))
    output.write_text(args.svg, drawing(found, f"{words}, seeds 1 to {args.seeds}"))
    say(f"nf measure hooks: wrote {shown(args.svg)}")
    return 0


def _measured(
    nodes: Nodes, hook: str, network: str, seed: int, script: Path, args: argparse.Namespace
) -> Mapping[str, float]:
    """Run the script with a hook on every rank, and return the result of `hook_launcher`."""
    steps = args.steps if network == LOOPBACK else min(args.steps, LINK_STEPS)
    words = [hook, str(steps), str(script.absolute()), *args.args]
    found = rank_run(nodes, RANKS, words, {"NF_SEED": str(seed)})
    wall, cpu = _MILLI * found["wall"], _MILLI * found["cpu"]
    said = f"{wall:8.1f} ms/step, CPU {cpu:6.1f} ms, {found['bytes']:11,.0f} bytes"
    say(f"  seed {seed} {network:8} {hook:15} {said}, loss {found['loss']:.4f}", flush=True)
    return found


def _above(found: Found, hook: str, key: str) -> float:
    """Return the mean difference of a figure on the loopback from plain DDP, seed by seed."""
    pairs = zip(found[hook, LOOPBACK], found[DDP, LOOPBACK], strict=True)
    return mean(own[key] - plain[key] for own, plain in pairs)


def _loss_above(found: Found, hook: str) -> str:
    """Return the mean difference of the loss from plain DDP.

    With enough seeds half the width of its 95 % interval follows it.
    """
    losses = [[one["loss"] for one in found[h, LOOPBACK]] for h in (DDP, hook)]
    said = f"{_above(found, hook, 'loss'):+.3f}"
    if hook == DDP or not SEEDS <= len(losses[0]) <= MOST_SEEDS:
        return said
    return f"{said} ± {Paired.of(*losses).half:.3f}"


def _networks(found: Found) -> list[str]:
    return list(dict.fromkeys(network for _, network in found))


def _hooks(found: Found) -> list[str]:
    return list(dict.fromkeys(hook for hook, _ in found))


def _ms(found: Found, hook: str, network: str, key: str = "wall") -> float:
    return _MILLI * median(one[key] for one in found[hook, network])


def _cpu(found: Found, hook: str) -> float:
    return _MILLI * min(one["cpu"] for one in found[hook, LOOPBACK])


def share(found: Found, hook: str) -> float:
    """Return the bytes that a rank sends with a hook, in percent of those of plain DDP."""
    mine, plain = (mean(one["bytes"] for one in found[h, LOOPBACK]) for h in (hook, DDP))
    return 100 * mine / plain


def table(found: Found) -> list[str]:
    """Return the results as the lines of a Markdown table, one row for each hook.

    Bytes and losses are means over seeds, times are medians; "above" of the loss is seed by seed.
    The table shows the least processor time, because other load on the machine only adds to it.
    """
    networks = _networks(found)
    head = ["hook", "bytes, % of DDP", "CPU, ms/step/rank", "above DDP", "loss", "above DDP"]
    head += [f"ms/step, {network}" for network in networks]
    rows = [head, ["---"] * len(head)]
    for hook in _hooks(found):
        rows.append(
            [
                hook,
                f"{share(found, hook):.1f}",
                f"{_cpu(found, hook):.1f}",
                f"{_cpu(found, hook) - _cpu(found, DDP):+.1f}",
                f"{mean(one['loss'] for one in found[hook, LOOPBACK]):.3f}",
                _loss_above(found, hook),
                *(f"{_ms(found, hook, network):,.0f}" for network in networks),
            ]
        )
    return [f"| {' | '.join(row)} |" for row in rows]


def parts(found: Found) -> list[str]:
    """Return a line for each hook of ours: milliseconds a step in each part of its work."""
    lines = []
    for hook in _hooks(found):
        names = [key for key in found[hook, LOOPBACK][0] if key not in _FIGURES]
        said = ", ".join(f"{key} {_ms(found, hook, LOOPBACK, key):.1f}" for key in names)
        lines += [f"{hook}, ms/step in: {said}"] if said else []
    return lines


def rows(found: Found) -> list[str]:
    """Return a line on what sending the rows of embeddings that are present would save."""
    shares = [one["rows"] for one in found[DDP, LOOPBACK] if "rows" in one]
    return [f"rows of embeddings with a gradient: {mean(shares):.1%}"] if shares else []


_FIGURES = ("wall", "cpu", "bytes", "loss", "rows")


def winners(found: Found) -> list[str]:
    """Return a line for each network: the hook with the least time at a loss equal to DDP's."""
    loss = mean(one["loss"] for one in found[DDP, LOOPBACK])
    equal = [hook for hook in _hooks(found) if _above(found, hook, "loss") <= EQUAL * loss]
    lines = []
    for network in _networks(found):
        first, best = (
            min(hooks, key=lambda hook: _ms(found, hook, network))
            for hooks in (_hooks(found), equal)
        )
        line = f"{network}: {best} is fastest with a loss within {EQUAL:.0%} of DDP's"
        lines.append(line if first == best else f"{line}; {first} is faster with a higher loss")
    return lines


def drawing(found: Found, title: str) -> str:
    """Return the SVG of the results: bytes, and time of a step on each network, by hook."""
    hooks, networks = _hooks(found), _networks(found)

    def bars(axes: Axes, x: str, series: Mapping[str, Sequence[float]]) -> None:
        room = 0.8 / len(series)
        for number, (label, values) in enumerate(series.items()):
            places = [at + room * (number - (len(series) - 1) / 2) for at in range(len(hooks))]
            drawn = axes.barh(places, values, room * 0.9, label=label)
            said = [f"{one:,.{int(one < 100)}f}" for one in values]
            axes.bar_label(drawn, said, padding=3, fontsize=7)
        axes.set_yticks(range(len(hooks)), hooks)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.set_xlabel(x)
        axes.margins(x=0.2)

    def paint(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        bars(left, "bytes, % of DDP", {"": [share(found, hook) for hook in hooks]})
        times = {network: [_ms(found, hook, network) for hook in hooks] for network in networks}
        bars(right, "ms/step", times)
        right.set_yticklabels([])
        figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4)
        figure.suptitle(title, fontsize=10)

    return render(paint, (9, 0.6 * len(hooks) + 1.5))

# SPDX-License-Identifier: Apache-2.0
"""Command `python -m neuron_fabric monitor`: summarize a run on the terminal or as an HTML
report, replay it with other thresholds, and measure how well the signals detect faults."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuron_fabric.arguments import whole
from neuron_fabric.data import DataError
from neuron_fabric.errors import MonitorError, say
from neuron_fabric.monitor import log, page
from neuron_fabric.monitor.bench import FAULTS, bench_lines, recorded_lines
from neuron_fabric.monitor.job_plan import Plan, plan_of
from neuron_fabric.monitor.log import Segment, replay
from neuron_fabric.monitor.recordings import RECORDED, name_of, record, recordings, signal_lines
from neuron_fabric.monitor.signals import Reason
from neuron_fabric.monitor.thresholds import thresholds_of
from neuron_fabric.output import check_output, write_text
from neuron_fabric.profile.profile_file import read_profile

HELP = "print states, signals and decisions of a recorded low-bit training"
EXAMPLES = """examples:
  nf train monitor runs/x                    decisions, bytes and states on the terminal
  nf train monitor runs/x --html x.html      the same as a page: one file, no network
  nf train monitor replay runs/x             the recorded signals give the recorded decisions
  nf train monitor replay runs/x --set drop=0.4  what another threshold would have decided
  nf train monitor bench --without cosine    which faults the other signals find
  nf train monitor bench --recorded captures/trainings  false alarms in real trainings
  nf train monitor signals runs/x            how near each signal came to its limit
  nf train monitor record runs/x --out captures/trainings  its signals, for that bench
"""
_MOST_SHOWN = 40
REPLAY, BENCH, SIGNALS, RECORD = "replay", "bench", "signals", "record"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of all forms of the command: a run's folder, or a verb with runs."""
    parser.usage = (
        "nf train monitor RUN [--html FILE]\n"
        "       nf train monitor replay RUN [--profile FILE] [--set NAME=VALUE] [--without SIGNAL]"
        "\n"
        "       nf train monitor bench [--without SIGNAL] [--fault NAME]\n"
        "                        [--seed N] [--seeds N] [--healthy N] [--recorded FOLDER]\n"
        "       nf train monitor signals RUN [RUN ...]\n"
        "       nf train monitor record RUN [RUN ...] --out FOLDER"
    )
    add = parser.add_argument
    add("what", metavar="RUN", help="folder with monitor.jsonl; or replay, bench, signals, record")
    add("of", nargs="*", type=Path, metavar="RUN", help="folder of replay; folders of the others")
    add("--html", type=Path, metavar="FILE", help="write an HTML report: one file, no network")
    add("--profile", type=Path, metavar="FILE", help="replay: use the thresholds of this profile")
    many: dict[str, Any] = {"action": "append", "default": []}
    setting = "replay: set a threshold, as in [monitor] of a profile"
    add("--set", type=_setting, metavar="NAME=VALUE", help=setting, **many)
    signals = [str(signal) for signal in Reason if signal != Reason.SCHEDULE]
    add("--without", choices=signals, metavar="SIGNAL", help="ignore a signal", **many)
    add("--fault", choices=list(FAULTS), metavar="NAME", help="bench: inject this fault only")
    seed, some = whole(0, 10**18 - 1), whole(1, 1000)
    add("--seed", type=seed, default=1, metavar="N", help="bench: first seed (1)")
    add("--seeds", type=some, default=3, metavar="N", help="bench: trainings for each fault (3)")
    healthy = "bench: healthy runs of 500 steps (20)"
    add("--healthy", type=some, default=20, metavar="N", help=healthy)
    add("--recorded", type=Path, metavar="FOLDER", help="bench: use recorded trainings")
    add("--out", type=Path, metavar="FOLDER", help="record: folder for the recordings")


def run(args: argparse.Namespace) -> int:
    """Run the command and return its exit code.

    It is 1 if an unchanged replay differs from the log, or the bench misses a fault or has too many
    false alarms with all signals; else 0.

    Raises:
        MonitorError: A run, a log or an argument is wrong.
    """
    off = tuple(Reason(one) for one in args.without)
    if args.what == BENCH and not args.of:
        if args.recorded is not None:
            lines, good = recorded_lines(recordings(args.recorded), off)
        else:
            lines, good = bench_lines(args.seed, args.healthy, off, args.fault, args.seeds)
        say(*lines)
        return 0 if good or off else 1
    if args.what in (REPLAY, SIGNALS, RECORD) and not args.of:
        where = f"nf train monitor {args.what}"
        raise MonitorError(where, "no run is given", "give a run's folder")
    if args.what == SIGNALS:
        for path in args.of:
            for segment in log.read(log.find(path))[0]:
                say(*signal_lines(name_of(path), segment))
        return 0
    if args.what == RECORD:
        return _record(args.out, args.of)
    if len(args.of) > int(args.what == REPLAY):
        raise MonitorError(args.of[-1], "is one word too many", "give one run's folder")
    path = log.find(args.of[0] if args.of else Path(args.what))
    segments, left_out = log.read(path)
    say(*(f"{path}: {one}" for one in left_out[:5]))
    if args.what == REPLAY:
        return _replay(segments, args.profile, dict(args.set), off)
    if args.html:
        check_output(args.html, "--html")
        write_text(args.html, page.page(segments))
        say(f"wrote {args.html}")
    else:
        say(*log.lines(segments))
    return 0


def _record(folder: Path | None, runs: Sequence[Path]) -> int:
    if folder is None or not folder.is_dir():
        what = "is not given" if folder is None else f"{folder} is no folder"
        raise MonitorError("--out", what, "give the folder for recordings")
    names = [name_of(one) for one in runs]
    if len(set(names)) < len(names):
        raise MonitorError("nf train monitor record", "two runs have one name", "record them apart")
    for one in runs:
        try:
            path = record(one, folder)
        except OSError as error:
            what = f"cannot be written ({error.strerror})"
            raise MonitorError(folder, what, "choose another folder") from None
        say(f"wrote {path}, {path.stat().st_size:,} bytes")
    return 0


def _replay(
    segments: Sequence[Segment],
    profile: Path | None,
    settings: dict[str, float],
    off: Sequence[Reason],
) -> int:
    changed = bool(profile or settings or off)
    differs = False
    for segment in segments:
        plan = _changed(segment.run.plan, profile, settings, off)
        than, alike = "recorded", ": as recorded"
        if segment.end == RECORDED and not segment.decisions:
            segment = replace(segment, decisions=replay(segment).decisions)
            than = "by its own thresholds"
            alike = f" {than}: a recording holds none to compare with"
        done = replay(segment, plan)
        if done.differs is None:
            say(f"{len(segment.steps)} steps, {len(done.decisions)} decisions{alike}")
            continue
        differs = True
        say(f"from step {done.differs} on other decisions than {than}:")
        was = {one for one in segment.decisions if one.step >= done.differs}
        now = {one for one in done.decisions if one.step >= done.differs}
        shown = sorted(was ^ now, key=lambda one: (one.step, one in now, one.region))
        for one in shown[:_MOST_SHOWN]:
            say(f"  {'+' if one in now else '-'} {log.decision_line(one)}")
        if len(shown) > _MOST_SHOWN:
            say(f"  ... and {len(shown) - _MOST_SHOWN} more")
        if changed:
            say("  (signals are those of the recorded routes: what follows is a guess)")
    return int(differs and not changed)


def _changed(
    plan: Plan, profile: Path | None, settings: dict[str, float], off: Sequence[Reason]
) -> Plan:
    """Return the recorded plan with changes for a replay.

    Args:
        plan: Recorded plan.
        profile: Profile whose regions and thresholds replace those of the plan, if any.
        settings: Thresholds by name.
        off: Further signals to ignore.

    Raises:
        MonitorError: A threshold is wrong.
    """
    try:
        if profile is not None:
            costs = {one.name: one.cost for one in plan.regions if one.cost is not None}
            new = read_profile(profile)
            made = plan_of(new, warmup=plan.warmup, unverified=plan.unverified, costs=costs)
            known = {one.name: one for one in plan.regions}
            regions = tuple(  # assignments are those of the log, which holds the errors
                replace(one, route=old.route, candidates=old.candidates)
                for one in made.regions
                for old in [known.get(one.name, one)]
            )
            plan = replace(made, regions=regions, assign=plan.assign, bits=plan.bits)
        limits = thresholds_of(settings, plan.limits)
    except DataError as error:
        where = profile if profile and not settings else "--set"
        raise MonitorError(where, error, "see [monitor] of a profile") from None
    return replace(plan, limits=limits, off=tuple(dict.fromkeys([*plan.off, *off])))


def _setting(text: str) -> tuple[str, Any]:
    name, mark, value = text.partition("=")
    try:
        if not mark:
            raise ValueError
        return name, int(value) if value.strip("-").isdecimal() else float(value)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is no NAME=VALUE") from None

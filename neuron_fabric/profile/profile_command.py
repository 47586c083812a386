# SPDX-License-Identifier: Apache-2.0
"""Command `python -m neuron_fabric profile`: draft a profile for a model, show one, check it
against a model, compare two profiles, apply the rule again."""

from __future__ import annotations

import argparse
import dataclasses
import fnmatch
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError
from neuron_fabric.errors import ProfileError, say
from neuron_fabric.monitor.job_plan import check_monitor
from neuron_fabric.profile.draft_profile import draft, with_routes
from neuron_fabric.profile.found_model import model_of_name, model_of_script
from neuron_fabric.profile.model_sketch import sketch
from neuron_fabric.profile.portability import Conditions, fit
from neuron_fabric.profile.profile_file import read_profile, write_profile
from neuron_fabric.profile.profile_types import (
    Assign,
    Kind,
    Phase,
    PhaseRoute,
    Profile,
    Region,
    Rule,
)
from neuron_fabric.profile.route_rule import apply_rule
from neuron_fabric.profile.samples import read_samples, samples_path, write_samples

HELP = "draft, print, check, compare and derive operating profiles"
EXAMPLES = """examples:
  nf train profile draft net:make --route linear=G_INT8 --out p.toml  without training
  nf train profile show p.toml               its regions, their routes, and why
  nf train profile check p.toml -- train.py  does it fit the model of this training
  nf train profile check p.toml --model net:make  the same, of a function, without memory
  nf train profile diff a.toml b.toml        what changed
  nf train profile rule p.toml --floor G_BINARY=0.5 --out q.toml  other floors, without training
  nf train profile rule p.toml --routes G_BINARY,G_INT4 --out q.toml  codes where votes fail
  nf train profile rule p.toml --routes G_INT4,G_INT8 --assign G_INT4=0.5  an error budget
  nf train profile rule p.toml --protect none  votes for head and embedding too, where they pass
"""
Name = TypeVar("Name", bound=str)
ASSIGN = "least bytes within an error budget: X times the error of ROUTE in all regions"
PROTECT = "kinds that get no votes, or none (head,embedding)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands `draft`, `show`, `check`, `diff` and `rule`."""
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    drafted = kinds.add_parser("draft", help="a profile for a model, without training")
    show = kinds.add_parser("show", help="its regions, their routes, and why")
    check = kinds.add_parser("check", help="does it fit a model; 1: unverified, 2: refused")
    diff = kinds.add_parser("diff", help="what differs; 1: something does")
    rule = kinds.add_parser("rule", help="routes anew from what was measured")
    for one in (show, check, rule):
        one.add_argument("profile", type=Path, metavar="PROFILE", help="file of a profile")
    drafted.usage = f"{drafted.prog} [--route NAME=ROUTE ...] --out FILE MODEL [-- ARGS]"
    drafted.add_argument("model", metavar="MODEL", help="MODULE:FUNCTION, or a training script")
    drafted.add_argument("script", nargs="*", metavar="ARGS", help="of the script, after --")
    drafted.add_argument(
        "--route",
        type=_route,
        action="append",
        default=[],
        metavar="NAME=ROUTE",
        help="route of a kind or region; patterns are allowed, a later one wins (FP32)",
    )
    drafted.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="write the profile"
    )
    check.usage = f"{check.prog} [--strict] [--workers W] ... PROFILE [-- SCRIPT ARGS]"
    add = check.add_argument
    add("--strict", action="store_true", help="refuse what is unverified")
    add("--workers", type=int, metavar="W", help="workers of the training")
    add("--batch", type=int, metavar="N", help="batch of a worker")
    add("--accumulation", type=int, metavar="K", help="backwards to a step")
    add("--optimizer", metavar="TEXT", help="as the profile writes it")
    add("--amp", metavar="TEXT", help="off, float16 or bfloat16")
    add("--clipping", action=argparse.BooleanOptionalAction, help="of the gradient's norm")
    add("--model", metavar="MODULE:FUNCTION", help="gives the model")
    add("script", nargs="*", metavar="SCRIPT", help="and its arguments, after --")
    diff.add_argument("old", type=Path, metavar="OLD", help="a profile")
    diff.add_argument("new", type=Path, metavar="NEW", help="and a later one")
    add, least = rule.add_argument, "least cosine of G_BINARY, G_TERNARY or other"
    add("--floor", type=_floor, nargs="+", default=[], metavar="ROUTE=COSINE", help=least)
    add("--shrink", choices=["fit", "one"], help="scale of votes")
    add("--routes", type=routes_of, metavar="R,R", help="what to choose from")
    add("--protect", type=kinds_of, metavar="K,K", help=PROTECT)
    add("--assign", type=assign_of, metavar="ROUTE=X", help=ASSIGN)
    add("--out", type=Path, metavar="FILE", help="write the profile")


def routes_of(word: str) -> tuple[Route, ...]:
    """Return the routes in a comma-separated list, for argparse. Raises ArgumentTypeError."""
    return _listed(word, [one for one in Route if one != Route.FP32], "no list of routes")


def kinds_of(word: str) -> tuple[Kind, ...]:
    """Return the kinds in a comma-separated list, () for "none", for argparse.

    Raises ArgumentTypeError for another text.
    """
    return () if word == "none" else _listed(word, list(Kind), "neither none nor kinds")


def assign_of(word: str) -> Assign:
    """Return the error budget ROUTE=X, for argparse. Raises ArgumentTypeError."""
    name, _, value = word.partition("=")
    try:
        return Assign(Route(name), float(value))
    except ValueError as error:
        known = ", ".join(one for one in Route if one != Route.FP32)
        what = f"{word!r} is not ROUTE=X, with one of {known} and X above 0 ({error})"
        raise argparse.ArgumentTypeError(what) from None


def with_rule(rule: Rule, **given: Any) -> Rule:
    """Return a rule with other values, those that are not None.

    Raises:
        ProfileError: The values contradict each other.
    """
    try:
        return dataclasses.replace(rule, **{k: one for k, one in given.items() if one is not None})
    except DataError as error:
        raise ProfileError("rule", error, "change --routes or --assign") from None


def _listed(word: str, known: Sequence[Name], what: str) -> tuple[Name, ...]:
    members, names = {str(one): one for one in known}, word.split(",")
    if not set(names) <= set(members) or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{word!r} is {what}: {','.join(members)}")
    return tuple(members[one] for one in names)


def _floor(word: str) -> tuple[str, float]:
    name, _, value = word.partition("=")
    if name not in ("G_BINARY", "G_TERNARY", "other"):
        raise argparse.ArgumentTypeError(f"{word!r} is not G_BINARY, G_TERNARY or other = COSINE")
    try:
        cosine = float(value)
    except ValueError:
        cosine = -1.0
    if not 0 <= cosine <= 1:
        raise argparse.ArgumentTypeError(f"{word!r}: a cosine from 0 to 1 is wanted")
    return name, cosine


def _route(word: str) -> tuple[str, Route]:
    name, _, value = word.partition("=")
    if not name or value not in list(Route):
        known = ", ".join(Route)
        raise argparse.ArgumentTypeError(f"{word!r} is not KIND or REGION = one of {known}")
    return name, Route(value)


def run(args: argparse.Namespace) -> int:
    """Run a subcommand and return its exit code.

    0: success; 1: `check` finds the profile unverified, or `diff` a difference.

    Raises:
        ProfileError: A profile is wrong or does not fit.
    """
    if args.what == "draft":
        return _draft(args)
    if args.what == "check":
        return _check(args)
    if args.what == "diff":
        lines = list(differences(read_profile(args.old), read_profile(args.new)))
        say(*(lines or ["the same"]))
        return int(bool(lines))
    if args.what == "rule":
        return _rule(args)
    profile = read_profile(args.profile)
    check_monitor(profile, args.profile)
    say(*shown(profile))
    return 0


def shown(profile: Profile) -> list[str]:
    """Return the description of a profile as lines of text, with a table of its regions."""
    verified = "verified" if profile.verified else "not verified"
    lines = [f"{profile.name}: {verified}, {profile.model.parameters:,} elements"]
    if profile.reference is not None:
        about = profile.reference
        pairs = [("FP32", about.fp32), ("with this profile", about.verified)]
        values = [f"{name} {s.mean:.4f} +- {s.std:.4f}" for name, s in pairs if s is not None]
        if about.difference is not None:
            values.append(
                "95 % interval of the difference {:+.4f} to {:+.4f}".format(*about.difference)
            )
        lines.append(f"{about.metric}: {', '.join(values)}")
    valid = [
        f"{name} {' to '.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in vars(profile.valid_for).items()
        if value is not None
    ]
    lines += [f"valid for: {', '.join(valid)}"] * bool(valid)
    if (ran := profile.calibration) is not None:
        early = ", which was stopped early" * ran.stopped_early
        taken = f"calibrated: {ran.samples} samples of {ran.steps} steps of seed {ran.seed}{early}"
        lines.append(taken)
    warmup = profile.phases.warmup.steps
    lines.append(f"warm-up in FP32: {f'{warmup:.0%} of' if warmup < 1 else f'{warmup:.0f}'} steps")
    if (ask := profile.rule.assign) is not None:
        when = f"again every {ask.every} steps" if ask.every else "once"
        lines.append(
            f"routes are assigned {when}, within {ask.budget:g} of the error of {ask.reference}"
        )
    rows = [_COLUMNS, *map(_row, profile.regions)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)]
        cells[2] = f"{row[2]:>{widths[2]}}"
        lines.append("  ".join(cells).rstrip())
    sent = sum(one.elements * one.phases[Phase.STEADY].route.bits for one in profile.regions)
    whole = sum(one.elements for one in profile.regions) * Route.FP32.bits
    if whole:
        lines.append(f"sent by a worker in the steady phase: {sent / whole:.1%} of FP32")
    return lines


_COLUMNS = ("region", "kind", "elements", "steady", "recovery", "cosine", "why")


def _row(region: Region) -> tuple[str, ...]:
    steady = region.phases[Phase.STEADY]
    recovery = region.phases.get(Phase.RECOVERY)
    found = region.measured.get(Phase.STEADY, {}).get(steady.route, {}).get(steady.measured_as, {})
    cosine = found.get("cosine")
    return (
        region.name,
        region.kind,
        f"{region.elements:,}",
        _way(steady),
        _way(recovery) if recovery else "",
        f"{cosine[0]:.3f} to {cosine[1]:.3f}" if cosine else "",
        steady.why,
    )


def _way(how: PhaseRoute) -> str:
    if how.route == Route.FP32:
        return f"FP32 of rank {how.low_rank}" if how.low_rank else "FP32"
    words = [how.route.value, how.decode if how.route.votes else f"rounded {how.rounding}"]
    if how.granularity != "tensor":
        words += [f"a scale per {how.block or ''} {how.granularity}".replace("  ", " ")]
    words += [] if how.scale == "mean_abs" else [how.scale]
    words += [] if how.shrink == 1 else [f"x {how.shrink:.4f}"]
    words += ["with feedback"] if how.feedback else []
    words += [f"of momentum {how.beta}"] if how.signal == "momentum" else []
    return " ".join(words)


def differences(old: Profile, new: Profile) -> Iterator[str]:
    """Yield a line of text for each difference between two profiles; measurements only as such."""
    for field in dataclasses.fields(Profile):
        if field.name not in ("version", "regions"):
            yield from _changes(field.name, getattr(old, field.name), getattr(new, field.name))
    regions = {one.name: one for one in old.regions}
    for region in new.regions:
        was = regions.pop(region.name, None)
        if was is None:
            yield f"region {region.name}: new, {_way(region.phases[Phase.STEADY])}"
            continue
        for phase in (Phase.STEADY, Phase.RECOVERY):
            before, after = was.phases.get(phase), region.phases.get(phase)
            if before != after:
                why = f" ({after.why})" if after and after.why else ""
                words = (_way(one) if one else "none" for one in (before, after))
                yield f"region {region.name}, {phase}: {' -> '.join(words)}{why}"
        for name in ("kind", "match", "elements"):
            yield from _changes(
                f"region {region.name}, {name}", getattr(was, name), getattr(region, name)
            )
        if was.measured != region.measured:
            yield f"region {region.name}, measured differs"
    yield from (f"region {name}: gone" for name in regions)


def _changes(name: str, old: object, new: object) -> Iterator[str]:
    if dataclasses.is_dataclass(old) and dataclasses.is_dataclass(new):
        for key, value in vars(new).items():
            yield from _changes(f"{name}.{key}", vars(old)[key], value)
    elif old != new:
        yield f"{name}: {_text(old)} -> {_text(new)}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_text, value)) or "none"
    return "none" if value is None else str(value)


def _draft(args: argparse.Namespace) -> int:
    named = ":" in args.model and not args.script
    made = model_of_name(args.model) if named else model_of_script([args.model, *args.script], 1)
    profile = draft(args.out.stem, sketch(made))
    for name, route in args.route:
        profile = _routed(profile, name, route)
    write_profile(profile, args.out)
    say(*shown(profile), f"written: {args.out}")
    return 0


def _routed(profile: Profile, name: str, route: Route) -> Profile:
    """Return a profile with a route for every kind and region that the pattern ``name`` matches."""

    def chosen(one: Region) -> PhaseRoute | None:
        named = any(fnmatch.fnmatchcase(text, name) for text in (one.kind, one.name))
        return PhaseRoute(route, why=f"drafted by {name}={route}") if named else None

    if not any(map(chosen, profile.regions)):
        words = [*(one.kind for one in profile.regions), *(one.name for one in profile.regions)]
        known = ", ".join(dict.fromkeys(words))
        raise ProfileError("--route", f"no kind or region is {name!r}", f"name of {known}")
    return with_routes(profile, chosen)


def _check(args: argparse.Namespace) -> int:
    profile = read_profile(args.profile)
    check_monitor(profile, args.profile)
    if not args.script and not args.model:
        say(f"{args.profile}: {len(profile.regions)} regions; no model to compare with")
        return 0
    if args.script and args.model:
        raise ProfileError("check", "a script and --model are given", "give one of them")
    world = profile.valid_for.world_size
    workers = args.workers or (world[0] if world else 1)
    model = model_of_name(args.model) if args.model else model_of_script(args.script, workers)
    here = Conditions(
        args.workers, args.batch, args.accumulation, args.optimizer, args.clipping, args.amp
    )
    found = fit(profile, model, here, strict=args.strict)
    for note in found.notes:
        say(f"note: {note}")
    for reason in found.reasons:
        say(f"unverified: {reason}")
    if found.unverified:
        say("every region would have to pass PROBE in parallel with FP32 first")
        return 1
    bound = f"{len(found.binding.regions)} parameters in {len(profile.regions)} regions"
    say(f"{args.profile}: fits, {bound}")
    return 0


def _rule(args: argparse.Namespace) -> int:
    profile = read_profile(args.profile)
    samples = read_samples(samples_path(args.profile))
    given = {name: getattr(args, name) for name in ("shrink", "routes", "protect", "assign")}
    floor = dataclasses.replace(profile.rule.floor, **dict(args.floor))
    rule = with_rule(profile.rule, floor=floor, **given)
    if lacking := set(args.routes or ()) - {way.route for way in samples.ways(Phase.STEADY)}:
        names = ", ".join(sorted(lacking))
        raise ProfileError(args.profile, f"{names}: not measured", "calibrate again with it")
    changed = apply_rule(dataclasses.replace(profile, rule=rule), samples)
    say(*(list(differences(profile, changed)) or ["the same"]))
    if args.out is not None:
        write_profile(changed, args.out)
        if samples_path(args.out) != samples_path(args.profile):
            write_samples(samples, samples_path(args.out))
        say(f"written: {args.out}")
    return 0

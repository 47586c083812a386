# SPDX-License-Identifier: Apache-2.0
"""`attach`: a profile in a training of the user's own; needs torch.

Nothing is registered unless all ranks agree on everything that decides: profile, model, options,
version. What is refused is one line and exit code 2 on every rank.
"""

# No postponed annotations here, as in the hook's own module.

import errno
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import __version__
from neuron_fabric.calibration.calibration_job import CALIBRATE, job_of
from neuron_fabric.calibration.shadow_run import shadowed, told
from neuron_fabric.codec import Route
from neuron_fabric.ddp import reducing_hook, register
from neuron_fabric.errors import AttachError, LineError
from neuron_fabric.hook.attached import Runtime, all_reducer
from neuron_fabric.hook.bucket_hook import (
    FALLBACK,
    NAN,
    ORDERED,
    PATHS,
    RING,
    BucketRouter,
    bucket_hook,
)
from neuron_fabric.hook.capacity import Substrate, place, read_substrate, refusals
from neuron_fabric.hook.conditions import told as told_conditions
from neuron_fabric.hook.conditions import watch_untold
from neuron_fabric.hook.refusal import check_model, end, warn
from neuron_fabric.monitor import Controller
from neuron_fabric.monitor.job_plan import (
    WARMUP,
    Cost,
    Phase,
    ProfileLike,
    RegionLike,
    check_monitor,
    costs_of,
    plan_of,
)
from neuron_fabric.profile import PhaseRoute, Profile, fingerprint, read_profile
from neuron_fabric.profile.portability import Conditions, Fit, Verdict, fit
from neuron_fabric.ranks import other_rank, silent_rank, together
from neuron_fabric.reducers.choice import TORCH, check_reducer, reducer_of
from neuron_fabric.reducers.torch_reducer import MAX_WORKERS
from neuron_fabric.tests.ddp.lost_ranks import Peers, watch
from neuron_fabric.wrapped import ddp_model, named_parameters

# Which parameters DDP puts into one bucket, by torch's own assignment; needs torch.


def assignment(parameters: Sequence[Any], cap_bytes: int) -> list[list[int]]:
    """Places of ``parameters`` (in the order of `named_parameters`, on whatever device) in the
    buckets that DDP makes once it has seen a backward: from the last parameter on, the first bucket
    small. Order and cuts may differ a little from a model's own order of gradients."""
    order = [n for n in reversed(range(len(parameters))) if parameters[n].requires_grad]
    if not order:
        return []
    first = min(int(dist._DEFAULT_FIRST_BUCKET_BYTES), cap_bytes)
    indices, _ = dist._compute_bucket_assignment_by_size(
        [parameters[n] for n in order], [first, cap_bytes], [False] * len(order)
    )
    return [[order[n] for n in bucket] for bucket in indices]


def buckets_by_region(
    named: Iterable[tuple[str, Any]], cap_bytes: int, regions: Mapping[str, str]
) -> Counter[str]:
    """How many buckets hold a parameter of each region; ``regions`` by the parameter's name."""
    names, parameters = zip(*named, strict=True)
    return Counter(
        region
        for bucket in assignment(parameters, cap_bytes)
        for region in {regions[names[n]] for n in bucket if names[n] in regions}
    )


# What capacity says of a profile's regions before a training: hard limits, each in one line, and
# the modelled times that the monitor holds against the network's (spec: runtime section 5).

NO_SUBSTRATE = (
    "capacity: no substrate file (NF_SUBSTRATE), so low-bit is used whether or not it pays"
)


@dataclass(frozen=True)
class Vetted:
    """``costs`` of the regions that can go through; why the others cannot, by region; and what a
    user should know."""

    costs: Mapping[str, Cost] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def vet(
    profile: ProfileLike,
    substrate: Substrate | None,
    workers: int,
    *,
    device: bool,
    buckets: Mapping[str, int] | None = None,
    waits: tuple[float, float] = (2.0, 0.0),
) -> Vetted:
    """``device``: the reducer is what the substrate describes; else packed gradients go by the same
    network, and of the substrate the host's rates count alone, no limit of the device.
    ``buckets``: how many hold each region; ``waits``: as of `costs_of`. Without a substrate nothing
    is vetoed; regions of integer codes are held against the hard limits alone, and a note says so.
    """
    if substrate is None:
        return Vetted(notes=(NO_SUBSTRATE,))
    counts = buckets or {}
    costs = costs_of(
        profile,
        substrate.coefficients,
        workers,
        device=device,
        buckets=counts,
        waits=waits,
    )
    notes = [
        f"capacity: region {one.name!r}: no time is modelled for packing {route}, so it is used "
        "whether or not it pays"
        for one in profile.regions
        if (route := _route(one, Phase.STEADY)).codes
    ]
    if not device:
        return Vetted(costs, notes=tuple(notes))
    refused: dict[str, str] = {}
    job = [Route.FP32]  # by which sidecars go
    for region in profile.regions:
        for phase in (Phase.STEADY, Phase.RECOVERY):
            route = _route(region, phase)
            if route == Route.FP32 or region.name in refused:
                continue
            elements = -(-region.elements // max(1, counts.get(region.name, 1)))
            reasons = refusals(substrate.device, route, elements, workers, job)
            if reasons:
                refused[region.name] = reasons[0]
                continue
            job.append(route)
            placed = place(substrate.device, route, elements, workers)
            if placed is not None and placed.rounds > 1:
                what = f"{elements:,} elements by {route} go in {placed.rounds} rounds"
                notes.append(f"capacity: region {region.name!r}: {what}")
    notes += [f"capacity: region {name!r} goes in FP32: {why}" for name, why in refused.items()]
    kept = {name: cost for name, cost in costs.items() if name not in refused}
    return Vetted(kept, refused, tuple(dict.fromkeys(notes)))


def _route(region: RegionLike, phase: Phase) -> Route:
    return Route(str(getattr(region.phases.get(phase), "route", Route.FP32)))


PROFILE, REDUCER, MONITOR = "NF_PROFILE", "NF_REDUCER", "NF_MONITOR"
SUBSTRATE = "NF_SUBSTRATE"
LEAST_WARMUP = 3
"""Steps that are FP32 in any case: DDP makes its buckets anew after the first."""


@dataclass(frozen=True)
class Options:
    """What `attach` was told beside model and profile; the ranks have to agree on it."""

    reducer: str = TORCH
    fp32: str = RING
    nonfinite: str = NAN
    strict: bool = False
    steps: int | None = None
    timeout_s: float = 60.0
    substrate: Substrate | None = None

    def __post_init__(self) -> None:
        """AttachError for a choice that there is not."""
        check_reducer(self.reducer)
        for name, value, known in (
            ("fp32", self.fp32, PATHS),
            ("nonfinite", self.nonfinite, (NAN, FALLBACK)),
        ):
            if value not in known:
                what = f"{name} {value!r} is none of {', '.join(known)}"
                raise AttachError("attach", what, "choose one")
        for name, number in (("steps", self.steps), ("timeout_s", self.timeout_s)):
            if number is not None and not (isinstance(number, Real) and 0 < number < 1e9):
                raise AttachError("attach", f"{name} is {number!r}", "give a number above 0")


def attach(
    model: Any,
    profile: str | os.PathLike[str] | Profile | None = None,
    *,
    reducer: str | None = None,
    monitor: str | os.PathLike[str] | None = None,
    fp32: str = RING,
    nonfinite: str = NAN,
    strict: bool = False,
    steps: int | None = None,
    timeout_s: float = 60.0,
    substrate: str | os.PathLike[str] | None = None,
    scaler: Any = None,
    optimizer: Any = None,
    batch: int | None = None,
    accumulation: int | None = None,
    clipping: bool | None = None,
    amp: Any = None,
    env: Mapping[str, str] = os.environ,
) -> Runtime | None:
    """Low-bit gradients for a DistributedDataParallel ``model``, before its first backward.

    ``profile``: a file (default: NF_PROFILE; without either nothing is registered and None
    returned). ``reducer``: `torch`, or `unix`, `unix:PATH` of a server (NF_REDUCER). ``monitor``: a
    folder for the log (NF_MONITOR).
    ``fp32``: see `fp32_paths`. ``nonfinite``: `nan`, for GradScaler or a training that stops at it;
    `fallback` reduces such a parameter once more, in FP32. ``strict``: a profile that was not
    verified for this training is refused. ``steps`` of the training: warm-up is a share of them.
    ``substrate``: what was measured of reducer and host (NF_SUBSTRATE), by which a region goes in
    FP32 while that is faster; without it none does.
    ``scaler``: the GradScaler of the training, which residuals and momenta follow; False: it has
    none. ``optimizer``: the training's, where it is there already; what a profile asks of both is
    checked. ``batch`` of a worker in one backward, ``accumulation`` (backwards to a step),
    ``clipping``, ``amp`` (`off`, `float16`, `bfloat16`): compared with those of the calibration, as
    is the optimizer. ``strict`` asks for each that the profile has.

    With NF_CAPTURE_DIR the gradients are captured too, as by `neuron_fabric.ddp.attach`, with a
    profile and without.
    """
    chosen = profile if profile is not None else env.get(PROFILE) or None
    model = ddp_model(model)
    try:
        asks = chosen is not None or bool(env.get(CALIBRATE))
        if isinstance(model, DistributedDataParallel):
            if silent := silent_rank("profile", asks, model.process_group):
                raise AttachError("attach", silent, "start all ranks alike")
            if not asks:
                register(model, None, None, env)
        if not asks:
            return None
        conditions = partial(
            told_conditions,
            batch=batch,
            accumulation=accumulation,
            clipping=clipping,
            amp=amp,
            optimizer=optimizer,
            scaler=scaler,
        )
        if asked := job_of(env):  # `nf train calibrate` has started this training
            chosen, monitor, strict = asked[1].profile, asked[0], False
        if not isinstance(model, DistributedDataParallel):
            check_model(model)  # there is no group to agree with
        if asked and chosen is None:
            here = together(conditions, model.process_group)
            return shadowed(model, *asked, steps=steps, here=here, timeout_s=timeout_s)
        assert chosen is not None
        runtime = _agreed(
            model,
            chosen,
            {
                "reducer": reducer or env.get(REDUCER) or TORCH,
                "fp32": fp32,
                "nonfinite": nonfinite,
                "strict": strict,
                "steps": steps,
                "timeout_s": timeout_s,
                "substrate": substrate or env.get(SUBSTRATE) or None,
            },
            Path(monitor or env[MONITOR]) if monitor or env.get(MONITOR) else None,
            conditions,
            scaler,
            optimizer,
            env,
        )
    except LineError as error:
        end(error, getattr(model, "process_group", None))
    if asked:
        told(runtime, model, *asked)
    return runtime


@dataclass(frozen=True)
class _Asked:
    """What one rank would attach."""

    profile: Profile
    fit: Fit
    here: Conditions
    options: Options
    digest: str


def _agreed(
    model: DistributedDataParallel,
    profile: str | os.PathLike[str] | Profile,
    options: Mapping[str, Any],
    folder: Path | None,
    conditions: Callable[[], Conditions],
    scaler: Any,
    optimizer: Any,
    env: Mapping[str, str],
) -> Runtime:
    """The same on every rank, or the same error on every rank."""
    group = model.process_group

    def ask() -> _Asked:
        return _asked(model, profile, _options(**options), conditions(), optimizer)

    asked = together(ask, group)
    if (other := other_rank(asked.digest, group)) is not None:
        what = f"rank {other} has another profile, model, version or other options than rank 0"
        raise AttachError("attach", what, "start all ranks alike")
    return _attached(model, asked, folder, scaler, env)


def _options(substrate: str | os.PathLike[str] | None, **words: Any) -> Options:
    return Options(**words, substrate=read_substrate(Path(substrate)) if substrate else None)


def _asked(
    model: DistributedDataParallel,
    profile: str | os.PathLike[str] | Profile,
    options: Options,
    here: Conditions,
    optimizer: Any,
) -> _Asked:
    read = profile if isinstance(profile, Profile) else read_profile(Path(profile))
    check_monitor(read, f"profile {read.name!r}")
    check_model(model, reducing_hook(model))
    world = dist.get_world_size(model.process_group)
    if world > MAX_WORKERS:
        what = f"{world} workers, and a count of votes holds {MAX_WORKERS}"
        raise AttachError("attach", what, "train with fewer")
    here = replace(here, world_size=world)
    found = fit(read, model, here, strict=options.strict)
    _check_momentum(read, optimizer)
    shape = fingerprint(found.binding.parameters)
    digest = hashlib.sha256(repr((__version__, read, shape, options, here)).encode()).hexdigest()
    return _Asked(read, found, here, options, digest)


def _check_momentum(profile: Profile, optimizer: Any) -> None:
    """A region that votes with its momentum leaves the optimizer none to add."""
    for region in profile.regions:
        if not any(how.signal == "momentum" for how in region.phases.values()):
            continue
        groups = getattr(optimizer, "param_groups", ())
        if any(group.get("momentum") for group in groups):
            what = f"region {region.name!r} votes with its momentum, and the optimizer adds its own"
            raise AttachError("attach", what, "give the optimizer momentum=0")


def _attached(
    model: DistributedDataParallel,
    asked: _Asked,
    folder: Path | None,
    scaler: Any,
    env: Mapping[str, str],
) -> Runtime:
    profile, binding, options = asked.profile, asked.fit.binding, asked.options
    group = model.process_group
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    regions = {name: region.name for name, region in binding.items()}
    reducer = reducer_of(
        options.reducer,
        profile,
        {name: (p.numel(), regions.get(name, "")) for name, p in named_parameters(model)},
        ordered=options.fp32 == ORDERED,
        digest=asked.digest,
        timeout_s=options.timeout_s,
    )
    reducer.open(group)
    router = BucketRouter(
        model,
        regions,
        reducer,
        fp32=options.fp32,
        nonfinite=options.nonfinite,
        shadows={region.name: how for region in profile.regions if (how := _steady(region))},
    )
    unverified = asked.fit.verdict == Verdict.UNVERIFIED
    device = options.reducer != TORCH
    asks = options.substrate is not None and not device and world > 1
    vetted = vet(
        profile,
        options.substrate,
        world,
        device=device,
        waits=reducer.first_group.latencies() if asks else (2.0, 0.0),
        buckets=buckets_by_region(named_parameters(model), model.bucket_bytes_cap, router.regions),
    )
    plan = plan_of(
        profile,
        warmup=_warmup(profile, options.steps),
        unverified=unverified,
        costs=vetted.costs,
        refused=vetted.refused,
    )
    # As long as between two decisions; not less than between two samples, which may be all that a
    # low-bit training sends as whole lines, and the one of this step is still under way.
    router.link.fresh = max(plan.limits.capacity_every, plan.limits.sample_every)
    controller = Controller(
        profile,
        all_reducer(reducer.second_group),
        rank=rank,
        world=world,
        folder=_writable(folder) if rank == 0 else None,
        plan=plan,
        about={
            "neuron_fabric": __version__,
            "reducer": options.reducer,
            "fp32": options.fp32,
            "substrate": options.substrate.name if options.substrate else "none",
        },
    )
    if rank == 0:
        _tell(asked, world, vetted)
        watch_untold(model, profile.valid_for, asked.here, profile.name)
    runtime = Runtime(router, controller, scaler or None)
    runtime.capture = register(model, router, bucket_hook, env)
    router.peers = Peers(group)
    watch(router.tell_lost)
    return runtime


def _in_units_of_the_loss(profile: Profile) -> list[str]:
    """Regions with something that is wrong as soon as the loss scale changes unseen."""
    return [
        region.name
        for region in profile.regions
        if any(
            how.feedback or how.signal == "momentum" or how.fixed is not None
            for how in region.phases.values()
        )
    ]


def _steady(region: Any) -> PhaseRoute | None:
    how: PhaseRoute | None = region.phases.get("steady")
    return how if how is not None and how.route != Route.FP32 else None


def _warmup(profile: Profile, steps: int | None) -> int:
    wanted = profile.phases.warmup.steps
    share = WARMUP if steps is None else round(wanted * steps)
    return max(LEAST_WARMUP, share if wanted < 1 else round(wanted))


def _writable(folder: Path | None) -> Path | None:
    """None, after a line, where no log can be written: the training goes on without."""
    if folder is None:
        return None
    try:
        if "\0" in str(folder):
            raise OSError(errno.EINVAL, "no name of a folder")
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
        why = "not writable"
    except OSError as error:
        why = str(error.strerror)
    warn(f"{folder}: {why}; the training goes on without a log")
    return None


def _tell(asked: _Asked, world: int, vetted: Vetted) -> None:
    """Say what a user may not expect, once for all ranks."""
    profile, found = asked.profile, asked.fit
    for note in vetted.notes:
        warn(note)
    for reason in found.reasons[:1]:
        warn(f"profile {profile.name!r}: {reason}; every region is tried beside FP32 first")
    for note in found.notes:
        warn(f"profile {profile.name!r}: {note}")
    if world == 1:
        warn("one worker: nothing is saved")
    hows = [how for region in profile.regions for how in region.phases.values()]
    if any(how.feedback for how in hows):
        warn("residuals of error feedback take 4 bytes an element of their regions")
    if any(how.signal == "momentum" for how in hows):
        warn("momentum is the signal of a region: the optimizer is to have none")
    if asked.here.grad_scaler is None and (names := _in_units_of_the_loss(profile)):
        what = f"residuals, momenta or a fixed scale of {', '.join(names)} follow the loss scale"
        warn(f"{what} by attach(..., scaler=) alone: give it the GradScaler, or False for none")
    if profile.phases.warmup.steps < 1 and asked.options.steps is None:
        warn(f"warm-up: {WARMUP} steps; its share needs attach(..., steps=)")

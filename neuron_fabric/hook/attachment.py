# SPDX-License-Identifier: Apache-2.0
"""`attach`: registers the communication hook on a training; needs torch.

A hook is registered only if all ranks agree on profile, model, options and version. If not, one
line is printed for all ranks, and each ends with exit code 2.
"""

# No postponed annotations here, as in the module of the hook.

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.calibration.calibration_job import CALIBRATE, job_of
from neuron_fabric.calibration.shadow_run import shadowed, told
from neuron_fabric.capacity.network_times import NetworkRate
from neuron_fabric.capacity.profile_costs import Vetted, measured_costs, vet
from neuron_fabric.capacity.substrate import Substrate, read_substrate
from neuron_fabric.codec import LINE, Route, lines_of
from neuron_fabric.codec.scale_groups import groups_of
from neuron_fabric.collectives.rounds import Closing
from neuron_fabric.errors import AttachError, LineError
from neuron_fabric.hook.attach_checks import (
    ENGINES,
    TORCH,
    C,
    check_closing,
    check_model,
    check_momentum,
    end,
    usual_engine,
    warn,
)
from neuron_fabric.hook.bucket_hook import (
    FALLBACK,
    NAN,
    ORDERED,
    PATHS,
    RING,
    BucketRouter,
    bucket_hook,
)
from neuron_fabric.hook.capture_hook import Hook, register
from neuron_fabric.hook.ddp_buckets import buckets_by_region
from neuron_fabric.hook.device_hook import DeviceRouter, counts_on_device
from neuron_fabric.hook.lost_ranks import Peers, watch
from neuron_fabric.hook.training_conditions import told as told_conditions
from neuron_fabric.hook.training_conditions import watch_untold
from neuron_fabric.hook.training_session import TrainingSession, all_reducer
from neuron_fabric.monitor import Controller
from neuron_fabric.monitor.job_plan import WARMUP, check_monitor, plan_of
from neuron_fabric.profile import Profile, fingerprint, read_profile
from neuron_fabric.profile.draft_profile import ADAPTIVE, AUTO, auto_profile
from neuron_fabric.profile.model_sketch import Parameter
from neuron_fabric.profile.portability import Conditions, Fit, fit
from neuron_fabric.profile.profile_types import Phase, steady_route, warmup_of
from neuron_fabric.rank_agreement import other_rank, silent_rank, together
from neuron_fabric.reducers.interface import Reducer
from neuron_fabric.reducers.pool_reducer import PREFIX as POOL
from neuron_fabric.reducers.pool_reducer import PoolReducer, RoundsReducer
from neuron_fabric.reducers.server_reducer import ServerReducer
from neuron_fabric.reducers.server_wire import DEFAULT, PREFIX, Hello, address
from neuron_fabric.reducers.shared_lines import most_lines
from neuron_fabric.reducers.torch_reducer import (
    MAX_WORKERS,
    HostReducer,
    TensorReducer,
    TorchReducer,
)
from neuron_fabric.version import VERSION
from neuron_fabric.wrapped import ddp_model, named_parameters

PROFILE, REDUCER, MONITOR = "NF_PROFILE", "NF_REDUCER", "NF_MONITOR"
SUBSTRATE, ENGINE = "NF_SUBSTRATE", "NF_ENGINE"


def _check_reducer(text: str) -> None:
    """Raise AttachError if ``text`` names no reducer, or a socket that cannot be one."""
    if text == DEFAULT or text.startswith(PREFIX):
        address(text)
    elif text != TORCH and not text.startswith(POOL):
        what = f"reducer {text!r} is not one of {TORCH}, pool:PATH, unix:PATH, {DEFAULT}"
        raise AttachError("attach", what, "choose one")


@dataclass(frozen=True)
class Options:
    """Options of `attach` on which all ranks must agree."""

    reducer: str = TORCH
    fp32: str = RING
    nonfinite: str = NAN
    strict: bool = False
    steps: int | None = None
    timeout_s: float = 60.0
    substrate: Substrate | None = None
    engine: str = C
    close_after: float | None = None
    min_workers: int | None = None

    def __post_init__(self) -> None:
        """Check the options. Raise AttachError for an unknown choice or a number out of range."""
        _check_reducer(self.reducer)
        for name, value, known in (
            ("fp32", self.fp32, PATHS),
            ("nonfinite", self.nonfinite, (NAN, FALLBACK)),
            ("engine", self.engine, ENGINES),
        ):
            if value not in known:
                what = f"unknown {name} {value!r}"
                raise AttachError("attach", what, f"use one of {', '.join(known)}")
        if self.engine == TORCH and self.nonfinite == FALLBACK:
            what = 'engine "torch" does not look at each tensor on the host, as fallback does'
            raise AttachError("attach", what, 'use nonfinite="nan"')
        if self.engine == TORCH and self.substrate is not None:
            what = 'a substrate has times of the engine "c", and this training uses "torch"'
            raise AttachError("attach", what, "leave out the substrate")
        for name, number in (
            ("steps", self.steps),
            ("timeout_s", self.timeout_s),
            ("close_after", self.close_after),
        ):
            if number is not None and not (isinstance(number, Real) and 0 < number < 1e9):
                raise AttachError("attach", f"{name} is {number!r}", "give a number above 0")


def attach(
    model: Any,
    profile: str | os.PathLike[str] | Profile | None = None,
    *,
    name: str = "",
    reduce: Hook | None = None,
    reduce_state: Any = None,
    first_step: int = 0,
    reducer: str | None = None,
    monitor: str | os.PathLike[str] | None = None,
    fp32: str = RING,
    nonfinite: str = NAN,
    engine: str | None = None,
    strict: bool = False,
    steps: int | None = None,
    timeout_s: float = 60.0,
    close_after: float | None = None,
    min_workers: int | None = None,
    substrate: str | os.PathLike[str] | None = None,
    scaler: Any = None,
    optimizer: Any = None,
    batch: int | None = None,
    accumulation: int | None = None,
    clipping: bool | None = None,
    amp: Any = None,
    env: Mapping[str, str] = os.environ,
) -> TrainingSession | None:
    """Register the communication hook of this package on a model, before its first backward.

    With a profile the gradients are low-bit where the profile admits it. Without one the reduction
    is bit for bit that of DDP. In both cases NF_CAPTURE_DIR captures the gradients of each worker
    before reduction (also NF_CAPTURE_STEPS, _RANKS, _LAYERS); a restart goes on without a capture
    if it must. Without profile, capture and ``reduce`` nothing is registered.

    Args:
        model: DistributedDataParallel model.
        profile: profile or its file (NF_PROFILE). "auto": a profile drafted from the model, whose
            regions are admitted by measured cosines and times (spec: runtime section 2.5).
            "adaptive": the same, and while training L-GreCo assigns their routes again and again
            from measured errors (section 6).
        name: name of the model in the capture (its class).
        reduce: hook that reduces, for a script with a communication hook; not with a profile.
        reduce_state: state of that hook.
        first_step: number of the first step in a capture without a profile, in a resumed training.
        reducer: "torch"; "pool:PATH", a shared memory of ranks on one machine (PATH in /dev/shm);
            or "unix" or "unix:PATH" of a reducer server (NF_REDUCER).
        monitor: folder of the log (NF_MONITOR).
        fp32: "ring", "ordered" or "whole", see `bucket_hook`.
        nonfinite: "nan", for GradScaler or a training that stops on NaN; "fallback" reduces a
            parameter that is not finite once more, in FP32.
        engine: "c" packs on the host, "torch" on the device of the gradients, with the same bits
            (NF_ENGINE). The default is "c" if all parameters are on the CPU, else "torch".
        strict: refuse a profile that was not verified for this training. It requires each condition
            that the profile lists.
        steps: number of steps of the training; the warm-up is a share of them.
        timeout_s: time-out of the reducer in seconds.
        close_after: seconds after which a round, a bucket of a step, is closed without the workers
            that are late, with "pool:PATH" or a reducer server. All workers then use the mean of
            the others; a late one keeps its gradient as a residual and gets the result. A worker is
            left out of 6 rounds in a row at most. The default is to wait for all, up to
            ``timeout_s``.
        min_workers: least number of workers of a closed round (all but one).
        substrate: file of measured reducer and host (NF_SUBSTRATE). Regions use FP32 while that is
            faster; without the file no region is vetoed.
        scaler: GradScaler, whose scale residuals and momenta follow; False: the training has none.
        optimizer: optimizer, compared with that of the calibration.
        batch: examples of a worker in one backward, compared likewise.
        accumulation: backward passes to a step, compared likewise.
        clipping: whether gradients are clipped, compared likewise.
        amp: "off", "float16" or "bfloat16", compared likewise.
        env: environment variables.

    Returns:
        The session of the training, with a profile; else None.

    Raises:
        SystemExit: with code 2 on every rank, after one line, if the request cannot be met.
    """
    chosen = profile if profile is not None else env.get(PROFILE) or None
    model = ddp_model(model)
    try:
        asks = chosen is not None or bool(env.get(CALIBRATE))
        if isinstance(model, DistributedDataParallel) and (
            silent := silent_rank("profile", asks, model.process_group)
        ):
            raise AttachError("attach", silent, "start all ranks alike")
        if not asks:
            register(model, env, reduce, reduce_state, name=name, first_step=first_step)
            return None
        if reduce is not None:
            what = "reduce= and a profile are two hooks that reduce"
            raise AttachError("attach", what, "choose one")
        if asked := job_of(env):  # `nf train calibrate` has started this training
            chosen, monitor, strict = asked[1].profile, asked[0], False
        if not isinstance(model, DistributedDataParallel):
            check_model(model)  # there is no group to agree with
        conditions = partial(
            told_conditions,
            batch=batch,
            accumulation=accumulation,
            clipping=clipping,
            amp=amp,
            optimizer=optimizer,
            scaler=scaler,
        )
        if asked and chosen is None:
            here = together(conditions, model.process_group)
            return shadowed(model, *asked, steps=steps, here=here, timeout_s=timeout_s)
        assert chosen is not None

        def request() -> _Asked:
            file = substrate or env.get(SUBSTRATE)
            known = read_substrate(Path(file)) if file else None
            which = reducer or env.get(REDUCER) or TORCH
            how = engine or env.get(ENGINE) or usual_engine(model)
            closing = close_after, min_workers
            words = which, fp32, nonfinite, strict, steps, timeout_s, known, how, *closing
            options = Options(*words)
            return _asked(model, chosen, options, conditions(), optimizer)

        agreed = together(request, model.process_group)
        if (other := other_rank(agreed.digest, model.process_group)) is not None:
            what = f"rank {other} has another profile, model, version or other options than rank 0"
            raise AttachError("attach", what, "start all ranks alike")
        folder = monitor or env.get(MONITOR)
        session = _attached(model, agreed, Path(folder) if folder else None, scaler, env, name)
    except LineError as error:
        end(error, getattr(model, "process_group", None))
    if asked:
        told(session, model, *asked)
    return session


@dataclass(frozen=True)
class _Asked:
    """Checked arguments of `attach` on one rank; ``digest`` must be equal on all ranks.

    ``auto``: the profile was drafted, so that times of the training decide whether it pays.
    """

    profile: Profile
    fit: Fit
    here: Conditions
    options: Options
    digest: str
    auto: bool


def _asked(
    model: DistributedDataParallel,
    profile: str | os.PathLike[str] | Profile,
    options: Options,
    here: Conditions,
    optimizer: Any,
) -> _Asked:
    if auto := str(profile) in (AUTO, ADAPTIVE):
        read = auto_profile(model, adaptive=str(profile) == ADAPTIVE)
    else:
        read = profile if isinstance(profile, Profile) else read_profile(Path(profile))
    check_monitor(read, f"profile {read.name!r}")
    check_model(model, engine=options.engine)
    world = dist.get_world_size(model.process_group)
    if world > MAX_WORKERS:
        what = f"{world} workers, and a count of votes holds {MAX_WORKERS}"
        raise AttachError("attach", what, "train with fewer")
    here = replace(here, world_size=world)
    found = fit(read, model, here, strict=options.strict)
    check_momentum(read, optimizer)
    check_closing(read, options, world)
    shape = fingerprint(found.binding.parameters)
    digest = hashlib.sha256(repr((VERSION, read, shape, options, here)).encode()).hexdigest()
    return _Asked(read, found, here, options, digest, auto)


def _reducer_of(asked: _Asked, model: Any, regions: Mapping[str, str]) -> Reducer:
    """Return the reducer that the options name, not yet opened.

    ``regions`` gives the profile region by name of parameter or slice.
    """
    profile, options = asked.profile, asked.options
    if options.reducer == TORCH:
        direct = options.engine == TORCH and counts_on_device(model)
        return (TensorReducer if direct else TorchReducer)(options.timeout_s)
    pooled, closing = options.reducer.startswith(POOL), None
    if options.close_after is not None:
        least = options.min_workers or max(1, dist.get_world_size(model.process_group) - 1)
        closing = Closing(float(options.close_after), least)
    if pooled and closing is None:
        return PoolReducer(options.reducer.removeprefix(POOL), options.timeout_s)
    rule = profile.rule
    again = rule.assign is not None and rule.assign.every
    low = {
        region.name: {
            *(how.route for how in region.phases.values()),
            *(rule.candidates(region.kind) if again and region.low_bit else ()),
        }
        - {Route.FP32}
        for region in profile.regions
    }
    widest = {
        name: max(routes, key=lambda route: route.bits, default=Route.G_BINARY)
        for name, routes in low.items()
    }
    sizes = {one.name: one.elements for one in asked.fit.binding.parameters}
    votes = [
        lines_of(n, widest.get(regions.get(name, ""), Route.G_BINARY)) for name, n in sizes.items()
    ]
    more = _scale_lines(profile, asked.fit.binding.parameters, regions)
    if options.fp32 == ORDERED:
        full = sum(lines_of(n, Route.FP32) for n in sizes.values())
        more += 2 * full + len(sizes)  # gradients and samples, each from a new line
    lines = most_lines(votes, more)
    if pooled and closing is not None:
        path = options.reducer.removeprefix(POOL)
        return RoundsReducer(path, closing, lines * LINE, options.timeout_s)
    routes = tuple(sorted(set().union(*low.values()), key=list(Route).index))
    hello = Hello("", 0, 0, asked.digest, lines, routes)
    if closing is not None:
        hello = replace(hello, **asdict(closing))
    return ServerReducer(address(options.reducer), hello, options.timeout_s)


def _scale_lines(
    profile: Profile, parameters: Sequence[Parameter], regions: Mapping[str, str]
) -> int:
    """Return the most lines of the scales of groups, and of their entries in a bucket's table."""
    hows = {region.name: region.phases.values() for region in profile.regions}
    counts = []
    for one in parameters:
        order = range(len(one.shape), 0, -1)  # the number of groups is the same in any order
        groups = [
            groups_of(one.shape, order, how.route, how.granularity, how.block)
            for how in hows.get(regions.get(one.name, ""), ())
        ]
        counts.append(max((found.count for found in groups if found is not None), default=0))
    return sum(lines_of(n, Route.FP32) for n in counts) + -(-8 * sum(map(bool, counts)) // LINE)


def _attached(
    model: DistributedDataParallel,
    asked: _Asked,
    folder: Path | None,
    scaler: Any,
    env: Mapping[str, str],
    name: str,
) -> TrainingSession:
    profile, binding, options = asked.profile, asked.fit.binding, asked.options
    group = model.process_group
    rank, world = dist.get_rank(group), dist.get_world_size(group)
    regions = {name: region.name for name, region in binding.regions.items()}
    reducer = _reducer_of(asked, model, regions)
    if options.engine == TORCH and not isinstance(reducer, TensorReducer):
        reducer = HostReducer(reducer, next(model.parameters()).device)
    reducer.open(group)
    router = (DeviceRouter if options.engine == TORCH else BucketRouter)(
        model,
        regions,
        reducer,
        fp32=options.fp32,
        nonfinite=options.nonfinite,
        shadows={
            region.name: region.phases[Phase.STEADY]
            for region in profile.regions
            if steady_route(region).route != Route.FP32
        },
    )
    unverified = asked.fit.unverified
    device = options.reducer != TORCH and not options.reducer.startswith(POOL)
    asks = options.substrate is not None and not device and world > 1
    if asked.auto and options.substrate is None and not device:
        vetted, router.link = Vetted(measured_costs(profile, world)), NetworkRate()
    else:
        named, cap = named_parameters(model), model.bucket_bytes_cap
        vetted = vet(
            profile,
            options.substrate,
            world,
            device=device,
            waits=reducer.first_group.latencies() if asks else (2.0, 0.0),
            buckets=buckets_by_region(named, cap, router.regions_of()),
        )
    share = profile.phases.warmup.steps
    plan = plan_of(
        profile,
        warmup=WARMUP if share < 1 and options.steps is None else warmup_of(share, options.steps),
        unverified=unverified,
        costs=vetted.costs,
        refused=vetted.refused,
        world=world,
    )
    router.off = frozenset(plan.off)
    # A time of the network stays valid from one decision to the next, and at least from one sample
    # to the next: samples may be the only FP32 traffic of a low-bit training.
    router.link.fresh = max(plan.limits.capacity_every, plan.limits.sample_every)
    controller = Controller(
        profile,
        all_reducer(reducer.second_group),
        rank=rank,
        world=world,
        folder=_writable(folder) if rank == 0 else None,
        plan=plan,
        about={
            "neuron_fabric": VERSION,
            "reducer": options.reducer,
            "fp32": options.fp32,
            "engine": options.engine,
            "substrate": options.substrate.name if options.substrate else "none",
        },
    )
    if rank == 0:
        _tell(asked, world, vetted)
        watch_untold(model, profile.valid_for, asked.here, profile.name)
    session = TrainingSession(router, controller, scaler or None)
    session.capture = register(model, env, bucket_hook, router, name=name)
    router.peers = Peers(group)
    watch(router.tell_lost)
    return session


def _writable(folder: Path | None) -> Path | None:
    """Return the folder of the monitor log, created; None after a warning if it is not writable."""
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
        why = "not writable"
    except (OSError, ValueError) as error:  # a NUL in the name
        why = str(getattr(error, "strerror", error))
    warn(f"{folder}: {why}; the training goes on without a log")
    return None


def _tell(asked: _Asked, world: int, vetted: Vetted) -> None:
    """Print the warnings about a profile and its capacity check; called on rank 0 only."""
    profile, found = asked.profile, asked.fit
    for note in vetted.notes:
        warn(note)
    for reason in found.reasons[:1]:
        warn(f"profile {profile.name!r}: {reason}; every region is tried against FP32 first")
    for note in found.notes:
        warn(f"profile {profile.name!r}: {note}")
    if world == 1:
        warn("one worker: nothing is saved")
    hows = [(region.name, how) for region in profile.regions for how in region.phases.values()]
    if any(how.feedback or how.low_rank for _, how in hows):
        warn("residuals of error feedback take 4 bytes an element of their regions")
    if any(how.signal == "momentum" for _, how in hows):
        warn("momentum is the signal of a region: the optimizer is to have none")
    scaled = {
        name: None
        for name, how in hows
        if how.feedback or how.low_rank or how.signal == "momentum" or how.fixed is not None
    }
    if asked.here.grad_scaler is None and scaled:
        what = f"residuals, momenta or a fixed scale of {', '.join(scaled)} follow the loss scale"
        warn(f"{what} by attach(..., scaler=) alone: give it the GradScaler, or False for none")
    if profile.phases.warmup.steps < 1 and asked.options.steps is None:
        warn(f"warm-up: {WARMUP} steps; its share needs attach(..., steps=)")

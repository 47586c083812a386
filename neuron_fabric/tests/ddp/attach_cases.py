# SPDX-License-Identifier: Apache-2.0
"""Cases of `attach` over real gloo ranks: trainings by a profile, and refusals.

A refusal prints one line for all ranks and ends each of them with exit code 2. `test_runtime_laws`
runs the cases, and those of captures.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import attach
from neuron_fabric.capacity.network_times import HostRate
from neuron_fabric.capacity.substrate import Substrate, shipped, write_substrate
from neuron_fabric.capture import Capture
from neuron_fabric.codec import Route
from neuron_fabric.errors import AttachError
from neuron_fabric.hook import attach_checks
from neuron_fabric.hook.training_session import TrainingSession
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.profile import fingerprint, sketch
from neuron_fabric.tests.ddp.law_testbench import Net, Ranks, law, patched

REGIONS = """
[[region]]
name = "wide"
kind = "linear"
match = ["[ab].weight"]
elements = 7872
steady = { route = "G_BINARY", decode = "net" }
[[region]]
name = "c"
kind = "linear"
match = ["c.weight"]
elements = 1296
steady = { route = "G_TERNARY", feedback = true }
[[region]]
name = "head"
kind = "head"
match = ["head.*"]
elements = 222
steady = { route = "FP32" }
"""
SAMPLE_EVERY = 2


def text_of(net: Net) -> str:
    """Return the text of a verified profile of ``net``.

    Args:
        net: Net that the cases train; its fingerprint is written into the profile.
    """
    head = {"head.weight", "head.bias"}
    mark = fingerprint(sketch(net, head))
    return f"""
format = "neuron-fabric-profile"
version = 1
name = "net"
verified = true
[model]
fingerprint = "{mark}"
parameters = 9622
[phases.warmup]
steps = 3
[monitor]
sample_every = {SAMPLE_EVERY}
{REGIONS}"""


def started(
    folder: str, rank: int = 0, size: int = 1, wait_s: float = 60.0, **env: str
) -> tuple[Any, Any]:
    """Join the process group of a training in its own process, and attach a profile to a net.

    Args:
        folder: Folder for the store of the process group and for the profile, which rank 0 writes.
        rank: Rank of this process.
        size: Number of ranks.
        wait_s: Time-out of the group and of `attach`, in seconds.
        **env: Variables that `attach` is to see as its environment.

    Returns:
        The DistributedDataParallel model, and the session that `attach` returned.
    """
    torch.set_num_threads(1)
    place = f"file://{folder}/store"
    seconds = timedelta(seconds=wait_s)
    dist.init_process_group("gloo", place, rank=rank, world_size=size, timeout=seconds)
    torch.manual_seed(1)
    net, path = Net(), Path(folder, "p.toml")
    if rank == 0:
        path.write_text(text_of(net), encoding="utf-8")
    dist.barrier()
    model = DistributedDataParallel(net)
    return model, attach(model, path, scaler=False, timeout_s=wait_s, env=env)


class FakeScaler:
    """Stand-in for torch's GradScaler: enabled, with a loss scale of 256."""

    def is_enabled(self) -> bool:
        return True

    def get_scale(self) -> float:
        return 256.0


class Training:
    """Net of one rank under DistributedDataParallel, with a profile in a folder of this case.

    The arguments of `attach` can be changed in ``words``; the warnings that a rank prints are
    collected in ``lines``.
    """

    def __init__(self, ranks_: Ranks, name: str, workers: int = 2, **options: Any) -> None:
        torch.manual_seed(1)
        self.ranks, self.workers, self.net = ranks_, workers, Net()
        self.folder = Path(ranks_.folder, name.replace(" ", "-"))
        self.folder.mkdir(exist_ok=True)
        self.options = {"process_group": ranks_.of(workers), "bucket_cap_mb": 0.008, **options}
        self.lines: list[str] = []
        self.model: Any = DistributedDataParallel(self.net, **self.options)
        self.losses = 0
        self.words: dict[str, Any] = {"env": {}, "scaler": False}  # arguments of `attach`
        self.path = self.folder / f"p{ranks_.rank}.toml"
        self.path.write_text(text_of(self.net), encoding="utf-8")

    def text(self, old: str, new: str) -> None:
        """Replace the text ``old`` by ``new`` in the profile of this rank."""
        self.path.write_text(self.path.read_text(encoding="utf-8").replace(old, new), "utf-8")

    def env(self, **more: str) -> dict[str, str]:
        return {"NF_CAPTURE_DIR": str(self.folder / "c"), **more}

    def capture(self, env: Mapping[str, str] | None = None, code: int = 0) -> None:
        """Call `attach` without a profile, and check whether it returns or exits.

        Args:
            env: Environment of `attach`; None: a capture into the folder ``c`` of this case.
            code: Exit code that is expected; 0: `attach` returns.
        """
        known = self.env() if env is None else env
        self.ranks.ends(lambda: attach(self.model, env=known), code)

    def attach(self, **words: Any) -> TrainingSession:
        """Attach the profile of this rank, with ``words`` as further arguments; return the
        session.
        """
        with patched(attach_checks, "say_warning", self.lines.append):
            session = attach(self.model, self.path, **{**self.words, **words})
        assert session is not None
        return session

    def step(self, backwards: int = 1, some: bool = True) -> None:
        for _ in range(backwards):
            draw = torch.Generator().manual_seed(10 * self.losses + self.ranks.rank)
            self.losses += 1
            self.model(torch.randn(4, 128, generator=draw), some).square().mean().backward()

    def said(self, *texts: str) -> None:
        """Check that for each text some rank has printed a line with it."""
        lines = [line for one in self.ranks.gather(self.workers, self.lines) for line in one]
        for text in texts:
            self.ranks.check(any(text in line for line in lines), f"{text!r} is not in {lines}")

    def steps(self, *steps: int, folder: str = "c") -> Capture:
        """Check that the capture in ``folder`` lists just ``steps``; return it."""
        torch.distributed.barrier(self.ranks.of(self.workers))
        capture = Capture.open(self.folder / folder)
        self.ranks.check(capture.steps == steps, f"steps {capture.steps} are captured, not {steps}")
        return capture


Change = Callable[[Training], Any]


def call_of(ranks: Ranks, workers: int, change: Change = lambda call: None) -> Training:
    call = Training(ranks, "attach", workers)
    change(call)
    return call


def refused(ranks: Ranks, workers: int, change: Change, sentence: str) -> None:
    """Check that `attach` exits with code 2 on every rank, and that one line matches ``sentence``.

    Args:
        ranks: Ranks of the case.
        workers: Number of workers.
        change: Fault that is put into the training before `attach` is called.
        sentence: Regular expression; one line of all ranks together matches it.
    """
    lines: list[str] = []
    with patched(attach_checks, "say_warning", lines.append):
        call = call_of(ranks, workers, change)
        ranks.ends(lambda: attach(call.model, call.path, **call.words))
    said = [line for lines in ranks.gather(workers, lines) for line in lines]
    times = sum(bool(re.search(sentence, line)) for line in said)
    ranks.check(times == 1, f"{sentence!r} is said {times} times in {said}")


@law("refused: a hook behind it", 2)
def after_it(ranks: Ranks, workers: int) -> None:
    """Check that another hook is refused after a profile was attached: exit code 2."""
    call = call_of(ranks, workers)
    session = call.attach()
    with patched(attach_checks, "say_warning", lambda line: None):
        ranks.ends(lambda: call.model.register_comm_hook(None, allreduce_hook))
    session.close()


@law("attach without a profile", 2)
def nothing(ranks: Ranks, workers: int) -> None:
    call = call_of(ranks, workers)
    ranks.check(attach(call.model, env={}) is None, "attach returns a session")
    ranks.check(not call.model._comm_hooks, "a hook is registered")


@law("attach trains by the profile", 4)
@law("codes: attach trains by the profile", 4, wide="G_INT8", c="G_INT4")
@law("torch: attach trains by the profile", 4, engine="torch")
@law("slices: attach trains by the profile", 4, match="c.weight[:, 3:]")
def trains(
    ranks: Ranks,
    workers: int,
    wide: str = "G_BINARY",
    c: str = "G_TERNARY",
    engine: str = "c",
    match: str = "c.weight",
) -> None:
    """Check 12 steps with a profile: 3 of FP32 warm-up, then the given routes; equal weights.

    Profile and monitor folder are given by environment variables. Only `wide` and `c` are routed; a
    loss that is no scalar raises AttachError, a NaN is counted, and the monitor log names the
    routes and samples.

    Args:
        ranks: Ranks of the case.
        workers: Number of workers.
        wide: Route of the region ``wide``.
        c: Route of the region ``c``.
        engine: Engine of the hook.
        match: Parameter of the region ``c``, or its slice.
    """
    folder = Path(ranks.folder, f"run-{wide}-{engine}-{match}")
    net = ', decode = "net"' * (wide == "G_BINARY")
    as_asked = _both(
        _text('"G_BINARY", decode = "net"', f'"{wide}"{net}'),
        _text('"G_TERNARY"', f'"{c}"'),
        _text('"c.weight"', f'"{match}"'),
    )
    call = call_of(ranks, workers, as_asked)
    env = {"NF_PROFILE": str(call.path), "NF_MONITOR": str(folder), "NF_ENGINE": engine}
    session = attach(call.model, env=env)
    assert session is not None
    optimizer = torch.optim.SGD(call.model.parameters(), lr=0.01)
    draw, seen = torch.Generator().manual_seed(ranks.rank), []
    for _ in range(12):
        optimizer.zero_grad()
        loss = call.model(torch.randn(8, 128, generator=draw)).square().mean()
        loss.backward()
        session.observe(loss)
        optimizer.step()
        seen.append(str(session.routes["wide"].route))
    ranks.check(seen[:3] == ["FP32"] * 3 and seen[-1] == wide, f"routes of the steps: {seen}")
    ranks.check(session.sent[c] > 0, f"no byte is sent by {c}")
    named = call.model.module.named_parameters()
    ranks.same(workers, {(11, name): one for name, one in named})
    try:
        session.observe(torch.zeros(2))
        ranks.check(False, "a loss of two elements is accepted")
    except AttachError:
        pass
    session.observe(torch.nan)
    ranks.check(session.strange_losses == 1, f"{session.strange_losses} losses are not finite")
    session.close()
    if ranks.rank == 0:
        [segment], left_out = monitor_log.read(folder / monitor_log.NAME)
        used = {route for one in segment.steps for route in one.bytes}
        sampled = {region for _, cosines in segment.samples for region in cosines}
        ranks.check({wide, c} <= used, f"the log has routes {used}")
        ranks.check({"wide", "c"} <= sampled, f"the log has samples of {sampled}")
        ranks.check(not left_out, f"the log has lines that cannot be read: {left_out}")


@law("attach without a log, one worker", 1)
def without_a_log(ranks: Ranks, workers: int) -> None:
    """Check that an unusable monitor folder costs the log only, and that one worker is warned.

    The warning says that a training of one worker saves no bytes.
    """
    call = call_of(ranks, workers)
    session = call.attach(monitor=call.path / "below a file")
    call.model(torch.randn(8, 128)).square().mean().backward()
    session.close()
    for text in ("goes on without a log", "nothing is saved"):
        ranks.check(text in " ".join(call.lines), f"{text!r} is not said")


@law("attach without a scaler", 2)
def tells_of_the_scaler(ranks: Ranks, workers: int) -> None:
    """Check that rank 0 warns if a region depends on the loss scale and no scaler is given.

    That is so for error feedback, momentum and a fixed scale; ``scaler=False`` or a scaler silences
    the line.
    """
    need = "of c follow the loss scale by attach(..., scaler=) alone"
    feedback, momentum, fixed = "feedback = true", 'signal = "momentum"', 'scale = "fixed:0.01"'
    for how, scaler, wanted in (
        (feedback, None, 1),
        (momentum, None, 1),
        (fixed, None, 1),
        ("feedback = false", None, 0),
        (feedback, False, 0),
        (feedback, FakeScaler(), 0),
    ):
        call = call_of(ranks, workers, _text(feedback, how))
        call.attach(scaler=scaler).close()
        said = sum(need in line for line in call.lines)
        ranks.check(said == wanted * (ranks.rank == 0), f"{how}, {scaler}: said {said} times")


def _freeze(call: Training) -> None:
    for parameter in call.model.parameters():
        parameter.requires_grad_(False)


def _elsewhere(call: Training) -> None:
    """Add a parameter on torch's meta device, so that the parameters are on two devices."""
    far = torch.nn.Parameter(torch.zeros(2, device="meta"))
    call.model.module.register_parameter("far", far)


def _set(**words: Any) -> Change:
    return lambda call: call.words.update(words)


def _class(name: str) -> Change:
    """Return a change that replaces the model by an empty module whose class has this name."""

    def change(call: Training) -> None:
        call.model = type(name, (torch.nn.Module,), {})()

    return change


def _text(old: str, new: str) -> Change:
    return lambda call: call.text(old, new)


def _both(*changes: Change) -> Change:
    def change(call: Training) -> None:
        for one in changes:
            one(call)

    return change


def _second(change: Change) -> Change:
    """Return a change that applies ``change`` on rank 1 alone."""
    return lambda call: change(call) if call.ranks.rank == 1 else None


def _no_file(call: Training) -> None:
    call.path.unlink()


def _momentum(call: Training) -> None:
    call.words["optimizer"] = torch.optim.SGD(call.model.parameters(), lr=1, momentum=0.9)


VALID = {
    "batch_per_worker": "[4, 8]",
    "accumulation": "2",
    "optimizer": '"SGD(momentum=0.9)"',
    "clipping": "true",
    "amp": '"bfloat16"',
}
"""Conditions of a calibration in its profile."""


def _told(**words: Any) -> dict[str, Any]:
    """Return arguments of `attach` that match the conditions `VALID`, updated with ``words``."""
    known = {"batch": 8, "accumulation": 2, "clipping": True, "amp": torch.bfloat16}
    return {**known, "optimizer": _sgd(0.9), **words}


def _sgd(momentum: float) -> Any:
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1, momentum=momentum)


def _valid_for(*names: str) -> Change:
    """Return a change that adds the named conditions (none: all) as ``valid_for`` to the
    profile.
    """
    lines = [f"{name} = {VALID[name]}" for name in names or VALID]
    return _text("[phases.warmup]", "\n".join(["[valid_for]", *lines, "[phases.warmup]"]))


OUTSIDE: list[tuple[str, dict[str, Any], str]] = [
    ("world size", {}, "world_size is 2, calibrated for 4 to 8"),
    ("batch", {"batch": 9}, "batch_per_worker is 9, calibrated for 4 to 8"),
    ("accumulation", {"accumulation": 1}, "accumulation is 1, calibrated for 2"),
    ("momentum", {"optimizer": _sgd(0)}, r"optimizer is SGD\(\), calibrated for SGD\(mom"),
    (
        "optimizer",
        {"optimizer": torch.optim.AdamW([torch.zeros(1, requires_grad=True)])},
        r"optimizer is AdamW\(\), calibrated for SGD\(momentum=0.9\)",
    ),
    ("clipping", {"clipping": False}, "clipping is false, calibrated for true"),
    ("amp", {"amp": "off"}, "amp is off, calibrated for bfloat16"),
]
"""Name of a condition, differing arguments of `attach`, and the line."""


def _outside(name: str, words: dict[str, Any]) -> Change:
    world = [_text("[valid_for]", "[valid_for]\nworld_size = [4, 8]")] * (name == "world size")
    return _both(_valid_for(), *world, _set(**_told(**words)))


@law("attach under other conditions", 2)
def conditions(ranks: Ranks, workers: int) -> None:
    """Check how a profile is used if the training differs from its calibration.

    Matching conditions: also with ``strict``, without a line. A condition that differs: one line of
    rank 0, and every region is tried (``unverified``) before it is trusted. A condition that the
    script did not name and that is seen to differ: a warning in the first step, nothing else.
    """

    def expect(change: Change, sentence: str, trains: bool = False) -> None:
        call = call_of(ranks, workers, change)
        session = call.attach()
        with patched(attach_checks, "say_warning", call.lines.append):
            for sync in (False, True) if trains else ():
                call.model.require_backward_grad_sync = sync
                call.model(torch.randn(9, 128)).square().mean().backward()
        session.close()
        controller: Any = session.controls
        tried = controller.plan.unverified
        said = sum(bool(re.search(sentence or "calibrated", line)) for line in call.lines)
        ranks.check(tried is (bool(sentence) and not trains), f"{sentence}: unverified {tried}")
        ranks.check(said == (bool(sentence) and ranks.rank == 0), f"{sentence}: said {said} times")

    expect(_both(_valid_for(), _set(strict=True, **_told())), "")
    for name, words, line in OUTSIDE:
        expect(_outside(name, words), f"{line}.*every region is tried")
    for line in ("batch_per_worker is 9, calibrated for 4 to 8; tell", "amp is off, calibrated"):
        expect(_valid_for(), line, trains=True)


def slow_host(folder: str, rank: int, pack_rate: float = 1e3) -> Path:
    """Write a substrate file of a host that packs ``pack_rate`` bytes per second; return its path.

    At the default of 1 kB/s no low-bit route pays.
    """
    path = Path(folder, f"slow-{rank}.toml")
    known = replace(shipped().coefficients, pack_rate=pack_rate)
    write_substrate(path, Substrate("slow", "by nobody", known))
    return path


@law("capacity vetoes what does not pay", 2)
def vetoed(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that no region leaves FP32 on a host too slow to pack, and that the log says so.

    The twin attaches without a substrate, so the routes are used and a warning is printed.
    """
    folder = Path(ranks.folder, f"capacity-{wrong}")
    call = call_of(ranks, workers)
    path = None if wrong else slow_host(ranks.folder, ranks.rank)
    session = call.attach(substrate=path, monitor=folder)
    used = set()
    for step in range(12):
        draw = torch.Generator().manual_seed(10 * step + ranks.rank)
        call.model(torch.randn(8, 128, generator=draw)).square().mean().backward()
        used |= {how.route for how in session.routes.values()}
    session.close()
    ranks.check(used == {Route.FP32}, f"routes {used} are used")
    if ranks.rank == 0:
        [segment], left_out = monitor_log.read(folder / monitor_log.NAME)
        rejected = {one["region"] for one in segment.capacity if not one["admitted"]}
        ranks.check(rejected == {"wide", "c"}, f"regions {rejected} are rejected")
        ranks.check(not left_out, f"the log has lines that cannot be read: {left_out}")
        said = any("no substrate file" in line for line in call.lines)
        ranks.check(not said, "a missing substrate is reported")
        for one in segment.capacity:
            ranks.check(one["t_low"] > one["t_fp32"] > 0, f"{one} is no veto")


@law("auto keeps FP32 on a slow host", 2)
def auto(ranks: Ranks, workers: int, wrong: bool = False) -> None:
    """Check that a region of "auto" is rejected if the host's work takes too long.

    The twin's host takes no time: its regions use codes, after a probe.
    """
    folder, call = Path(ranks.folder, f"auto-{wrong}"), call_of(ranks, workers)
    call.words["env"] = {"NF_PROFILE": "auto", "NF_MONITOR": str(folder)}
    host, used = {"host_mib": 0.0 if wrong else 1e3}, set()
    with (
        patched(HostRate, "seconds", lambda _: host),
        patched(attach_checks, "say_warning", call.lines.append),
    ):
        session = attach(call.model, **call.words)
        assert session is not None
        for _ in range(36):
            call.step()
            used |= {how.route for how in session.routes.values()}
        session.close()
    call.said("profile 'auto': it was never verified; every region is tried against FP32 first")
    if ranks.rank == 0:
        [segment], _ = monitor_log.read(folder / monitor_log.NAME)
        ways = [(one.source, one.target) for one in segment.decisions if one.region]
        ranks.check(("FP32", "PROBE") in ways, f"no region is probed: {ways}")
        ranks.check(("FP32", "LOW") not in ways, f"a region is not probed: {ways}")
    ranks.check(used == {Route.FP32}, f"routes {used} are used")


@law("adaptive routes are those of all ranks", 3)
@law("torch: adaptive routes are those of all ranks", 3, twin=False, engine="torch")
def adaptive(ranks: Ranks, workers: int, engine: str = "c", wrong: bool = False) -> None:
    """Check that errors change the routes at one step on all ranks, and that a checkpoint resumes.

    The twin assigns at calibration alone, so that its routes stay.
    """
    codes = "routes = ['G_INT4', 'G_INT8']\nassign = { budget = 1.01, every = 5 }"
    change = _both(
        _text('"G_BINARY", decode = "net"', '"G_INT8"'),
        _text('"G_TERNARY"', '"G_INT8"'),
        _text("[monitor]", f"[rule]\n{codes.replace('= 5', '= 0') if wrong else codes}\n[monitor]"),
    )
    call = call_of(ranks, workers, change)
    session, seen = call.attach(engine=engine), []
    for _ in range(6):
        call.step()
        seen.append({name: str(how.route) for name, how in session.routes.items()})
    state = session.state_dict()
    ranks.check(len(set(map(str, ranks.gather(workers, seen)))) == 1, f"ranks differ: {seen}")
    ranks.check(seen[3]["c"] == "G_INT4", f"routes are not assigned: {seen}")
    ranks.check("G_INT4" in session.sent, "no byte is sent by the assigned route")
    session.close()
    again = call_of(ranks, workers, change)
    session = again.attach(engine=engine)
    session.load_state_dict(state)
    again.step()
    ranks.check(str(session.routes["c"].route) == seen[-1]["c"], "a checkpoint loses the routes")
    session.close()


def _slow(call: Training) -> None:
    rank = call.ranks.rank
    call.words["substrate"] = slow_host(call.ranks.folder, rank, 1e3 * (1 + rank))


def _auto_strict(call: Training) -> None:
    call.path = "auto"  # type: ignore[assignment]
    call.words["strict"] = True


def _no_substrate(call: Training) -> None:
    call.words["substrate"] = call.path / "below a file"


def _closing(**words: Any) -> Change:
    return _set(**{"reducer": "unix:/s", "fp32": "ordered", "close_after": 0.1, **words})


_NO_FILE = "No such file|cannot be read"
_OTHER = "rank 1 has another profile"
_SIGNAL = _text("feedback = true", 'signal = "momentum"')
_FIXED = _text("feedback = true", 'scale = "fixed:0.01"')
REFUSED: list[tuple[str, Change, str]] = [
    ("no file", _no_file, _NO_FILE),
    ("auto, strict", _auto_strict, "profile 'auto': it was never verified; calibrate"),
    ("a wrong file", _text("verified =", "verifyed ="), "verifyed"),
    ("one rank's slice", _second(_text("c.weight", "c.weight[:30]")), _OTHER),
    (
        "another model, strict",
        _both(_text("sha256:", "sha256:0"), _set(strict=True)),
        "fingerprint is another",
    ),
    (
        "a fixed scale with GradScaler",
        _both(_FIXED, _set(scaler=FakeScaler())),
        "fixed:0.01.*GradScaler",
    ),
    ("momentum twice", _both(_SIGNAL, _momentum), "'c' votes with its momentum.*momentum=0"),
    ("unknown path", _set(fp32="fast"), "unknown fp32 'fast'; use one of ring, ordered, whole"),
    (
        "unknown reducer",
        _set(reducer="pigeon"),
        "'pigeon' is not one of torch, pool:PATH, unix:",
    ),
    ("no time to close", _set(close_after=0), "close_after is 0; give a number above 0"),
    ("least without closing", _set(min_workers=2), "min_workers without close_after; give both"),
    (
        "closing by shares",
        _set(reducer="torch", close_after=0.1),
        'close_after with reducer "torch", in which each rank counts a share; use reducer="pool:',
    ),
    (
        "closing after the time-out",
        _closing(close_after=9.0, timeout_s=9.0),
        "close_after 9 is not below timeout_s 9; give fewer seconds",
    ),
    (
        "closing a ring",
        _closing(fp32="ring"),
        'close_after with fp32="ring", in which FP32 gradients wait.*use fp32="ordered"',
    ),
    ("too many of them", _closing(min_workers=9), "min_workers 9 of 2 workers; give 1 to 2"),
    (
        "closing without feedback",
        _both(_text("feedback = true", "feedback = false"), _closing()),
        "close_after: region '.*' has no feedback to keep a late gradient; set feedback = true",
    ),
    ("no server", _set(reducer="unix:/nowhere/s"), "/nowhere/s: no reducer server is there; start"),
    ("no steps", _set(steps=-1), "attach: steps is -1; give a number above 0"),
    ("no time", _set(timeout_s=float("nan")), "timeout_s is nan; give a number above 0"),
    (
        "a threshold that is none",
        _text("sample_every", "smaple_every"),
        "profile 'net': monitor: field 'smaple_every' is not known here; mend",
    ),
    ("no batch", _set(batch=0), "batch is 0; give an integer above 0"),
    ("half a step", _set(accumulation=0.5), "accumulation is 0.5; give an integer above 0"),
    ("clipping by a number", _set(clipping=2.0), "clipping is 2.0; give True or False"),
    ("unknown autocast", _set(amp="tf32"), "amp 'tf32' is not one of off, float16, bfloat16"),
    ("one rank's batch", _second(_set(batch=3)), _OTHER),
    ("no scaler", _set(scaler=True), "scaler is a bool; give the training's GradScaler, or False"),
    ("no choice for NaN", _set(nonfinite="drop"), "unknown nonfinite 'drop'; use one of nan"),
    ("another substrate", _slow, _OTHER),
    ("no substrate", _no_substrate, "cannot be read|Not a directory"),
    ("two hooks that reduce", _set(reduce=allreduce_hook), "reduce= and a profile are two hooks"),
    ("one rank's profile", _second(_text("steps = 3", "steps = 4")), _OTHER),
    ("one rank's file", _second(_no_file), f"rank 1: .*({_NO_FILE})"),
    ("nothing to train", _freeze, "no parameter of the model is trained|matches frozen"),
    ("not wrapped", lambda call: setattr(call, "model", call.model.module), "Net is no Distrib"),
    ("FSDP", _class("FSDPModule"), "FSDPModule reduces shards"),
    ("two devices", _elsewhere, "parameters are on cpu, meta; move all of them to the CPU or to"),
    (
        "another device with the engine c",
        _both(_elsewhere, _set(engine="c")),
        "parameters are on cpu, meta; the engine c, of calibrations too, packs on the CPU",
    ),
    ("unknown engine", _set(engine="rust"), "unknown engine 'rust'; use one of c, torch"),
    (
        "fallback with the engine torch",
        _set(engine="torch", nonfinite="fallback"),
        'engine "torch" does not look at each tensor.*use nonfinite="nan"',
    ),
    (
        "a substrate with the engine torch",
        _both(_slow, _set(engine="torch")),
        'times of the engine "c".*leave out the substrate|' + _OTHER,
    ),
    ("one rank's engine", _second(_set(engine="torch")), _OTHER),
    (
        "mixed precision of DDP",
        lambda call: setattr(call.model, "mixed_precision", 1),
        "mixed_precision of DDP installs another hook; use torch.autocast",
    ),
    (
        "steps that hooks do not see",
        lambda call: setattr(call.model, "skip_all_reduce_unused_params", True),
        "skip_all_reduce_unused_params hides steps from hooks",
    ),
    (
        "the reducer of torch.compile",
        lambda call: setattr(call.model, "_use_python_reducer", True),
        "the python_reducer of torch.compile has no buckets",
    ),
    ("a mesh", lambda call: setattr(call.model, "device_mesh", 1), "device_mesh splits"),
    (
        "attached twice",
        lambda call: attach(call.model, call.path, env={}),
        "this model has a profile already",
    ),
    (
        "a hook built in",
        lambda call: call.model._register_builtin_comm_hook(dist.BuiltinCommHookType.ALLREDUCE),
        "is one too",
    ),
]
for _name, _change, _sentence in REFUSED:
    law(f"refused: {_name}", 2, change=_change, sentence=_sentence)(refused)

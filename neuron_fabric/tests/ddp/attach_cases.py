# SPDX-License-Identifier: Apache-2.0
"""`attach` in a training, and what it refuses: each in one line and with code 2 on every rank."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.ddp import capture_hook
from neuron_fabric.errors import AttachError, say
from neuron_fabric.hook import attach, attachment, refusal
from neuron_fabric.hook import conditions as watched
from neuron_fabric.monitor import log as monitor_log
from neuron_fabric.profile import fingerprint, sketch
from neuron_fabric.tests.ddp.law_ranks import Net, Ranks, patched

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


def text_of(net: Net, regions: str = REGIONS, top: str = "") -> str:
    """A verified profile of the net that the cases train."""
    head = {"head.weight", "head.bias"}
    mark = fingerprint(sketch(net, head))
    return f"""{top}
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
{regions}"""


class Scaler:
    """As GradScaler."""

    def is_enabled(self) -> bool:
        return True

    def get_scale(self) -> float:
        return 256.0


@dataclass
class Call:
    """What a case changes of a call of `attach` by this rank."""

    ranks: Ranks
    model: Any
    path: Path
    words: dict[str, Any]

    def text(self, old: str, new: str) -> None:
        self.path.write_text(self.path.read_text(encoding="utf-8").replace(old, new), "utf-8")


Change = Callable[[Call], Any]


def call_of(ranks: Ranks, workers: int, change: Change) -> Call:
    torch.manual_seed(1)
    net = Net()
    model = DistributedDataParallel(net, process_group=ranks.of(workers), bucket_cap_mb=0.008)
    path = Path(ranks.folder, f"profile-{ranks.rank}.toml")
    path.write_text(text_of(net), encoding="utf-8")
    call = Call(ranks, model, path, {"env": {}})
    change(call)
    return call


def refused(ranks: Ranks, workers: int, change: Change, sentence: str) -> int:
    """Whether a rank goes on, or another line is said, or not once."""
    lines: list[str] = []
    with patched(refusal, "warn", lines.append):
        call = call_of(ranks, workers, change)
        try:
            attach(call.model, call.words.pop("profile", call.path), **call.words)
            wrong = 1
        except SystemExit as end:
            wrong = int(end.code != 2)
    every: list[Any] = [None] * workers
    dist.all_gather_object(every, lines, group=ranks.of(workers))
    said = [line for lines in every for line in lines]
    if sum(bool(re.search(sentence, line)) for line in said) != 1:
        say(f"{sentence!r} is to be said once, not {said}", file=sys.stderr)
        wrong += 1
    return wrong


def after_it(ranks: Ranks, workers: int) -> int:
    """A hook that is registered when a profile is attached."""
    call = call_of(ranks, workers, lambda call: None)
    runtime = attach(call.model, call.path, env={})
    assert runtime is not None
    found = 0
    with patched(refusal, "warn", lambda line: None):
        try:
            call.model.register_comm_hook(None, allreduce_hook)
            found += 1
        except SystemExit as end:
            found += int(end.code != 2)
    runtime.close()
    return found


def nothing(ranks: Ranks, workers: int) -> int:
    """Without a profile nothing is registered."""
    call = call_of(ranks, workers, lambda call: None)
    found = int(attach(call.model, env={}) is not None)
    return found + len(call.model._comm_hooks)


def trains(ranks: Ranks, workers: int, wide: str = "G_BINARY", c: str = "G_TERNARY") -> int:
    """From warm-up to votes by the profile in the environment, with a log, the same everywhere; or
    to integer codes: routes of regions `wide` and `c`."""
    folder = Path(ranks.folder, f"run-{wide}")
    net = ', decode = "net"' * (wide == "G_BINARY")
    as_asked = _both(
        _text('"G_BINARY", decode = "net"', f'"{wide}"{net}'), _text('"G_TERNARY"', f'"{c}"')
    )
    call = call_of(ranks, workers, as_asked)
    env = {"NF_PROFILE": str(call.path), "NF_MONITOR": str(folder)}
    runtime = attach(call.model, env=env)
    assert runtime is not None
    optimizer = torch.optim.SGD(call.model.parameters(), lr=0.01)
    draw, seen = torch.Generator().manual_seed(ranks.rank), []
    for _ in range(12):
        optimizer.zero_grad()
        loss = call.model(torch.randn(8, 128, generator=draw)).square().mean()
        loss.backward()
        runtime.observe(loss)
        optimizer.step()
        seen.append(str(runtime.routes["wide"].route))
    found = int(seen[:3] != ["FP32"] * 3) + int(seen[-1] != wide)
    found += int(not runtime.sent[c] > 0)
    weights = torch.cat([p.detach().flatten() for p in call.model.parameters()])
    found += ranks.same(workers, weights)
    try:
        runtime.observe(torch.zeros(2))
        found += 1
    except AttachError:
        pass
    runtime.observe(torch.nan)
    found += int(runtime.strange_losses != 1)
    runtime.close()
    if ranks.rank == 0:
        [segment], left_out = monitor_log.read(folder / monitor_log.NAME)
        used = {route for one in segment.steps for route in one.bytes}
        sampled = {region for _, cosines in segment.samples for region in cosines}
        found += int(not {wide, c} <= used) + int(not {"wide", "c"} <= sampled) + len(left_out)
    return found


def without_a_log(ranks: Ranks, workers: int) -> int:
    """A folder that cannot be made costs the log, not the training; one worker saves nothing."""
    lines: list[str] = []
    with patched(attachment, "warn", lines.append):
        call = call_of(ranks, workers, lambda call: None)
        runtime = attach(call.model, call.path, monitor=call.path / "below a file", env={})
    assert runtime is not None
    call.model(torch.randn(8, 128)).square().mean().backward()
    runtime.close()
    text = " ".join(lines)
    return int("goes on without a log" not in text) + int("nothing is saved" not in text)


def tells_of_the_scaler(ranks: Ranks, workers: int) -> int:
    """One line where a region needs the loss scale, and nobody has said what it is."""
    found, need = 0, "of c follow the loss scale by attach(..., scaler=) alone"
    feedback, momentum, fixed = "feedback = true", 'signal = "momentum"', 'scale = "fixed:0.01"'
    for how, scaler, wanted in (
        (feedback, None, 1),
        (momentum, None, 1),
        (fixed, None, 1),
        ("feedback = false", None, 0),
        (feedback, False, 0),
        (feedback, Scaler(), 0),
    ):
        lines: list[str] = []
        with patched(attachment, "warn", lines.append):
            call = call_of(ranks, workers, _text(feedback, how))
            runtime = attach(call.model, call.path, scaler=scaler, env={})
        assert runtime is not None
        runtime.close()
        found += int(sum(need in line for line in lines) != wanted * (ranks.rank == 0))
    return found


def _freeze(call: Call) -> None:
    for parameter in call.model.parameters():
        parameter.requires_grad_(False)


def _elsewhere(call: Call) -> None:
    """A parameter on another device than the CPU."""
    far = torch.nn.Parameter(torch.zeros(2, device="meta"))
    call.model.module.register_parameter("far", far)


def _set(**words: Any) -> Change:
    return lambda call: call.words.update(words)


def _class(name: str) -> Change:
    """A model of that class, which wraps parameters in a way of its own."""

    def change(call: Call) -> None:
        call.model = type(name, (torch.nn.Module,), {})()

    return change


def _text(old: str, new: str) -> Change:
    return lambda call: call.text(old, new)


def _both(*changes: Change) -> Change:
    def change(call: Call) -> None:
        for one in changes:
            one(call)

    return change


def _second(change: Change) -> Change:
    """On rank 1 alone."""
    return lambda call: change(call) if call.ranks.rank == 1 else None


def _no_file(call: Call) -> None:
    call.path.unlink()


def _momentum(call: Call) -> None:
    call.words["optimizer"] = torch.optim.SGD(call.model.parameters(), lr=1, momentum=0.9)


VALID = {
    "batch_per_worker": "[4, 8]",
    "accumulation": "2",
    "optimizer": '"SGD(momentum=0.9)"',
    "clipping": "true",
    "amp": '"bfloat16"',
}
"""Conditions of a calibration, as its profile has them."""


def _told(**words: Any) -> dict[str, Any]:
    """What a training of just these conditions tells `attach`, with other ``words``."""
    known = {"batch": 8, "accumulation": 2, "clipping": True, "amp": torch.bfloat16}
    return {**known, "optimizer": _sgd(0.9), **words}


def _sgd(momentum: float) -> Any:
    return torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1, momentum=momentum)


def _valid_for(*names: str) -> Change:
    """A profile that was calibrated under these conditions, or all."""
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
"""Conditions that are others, what `attach` is told of them, and the line."""
UNTOLD = [
    ("batch", "batch_per_worker 4 to 8"),
    ("accumulation", "accumulation 2"),
    ("optimizer", r"optimizer SGD\(momentum=0.9\)"),
    ("clipping", "clipping true"),
    ("amp", "amp bfloat16"),
]


def _outside(name: str, words: dict[str, Any]) -> Change:
    world = [_text("[valid_for]", "[valid_for]\nworld_size = [4, 8]")] * (name == "world size")
    return _both(_valid_for(), *world, _set(**_told(**words)))


def conditions(ranks: Ranks, workers: int) -> int:
    """The conditions of the calibration are used, strictly; others are tried first, in one line;
    what is not told and seen to be another is warned of in the first step."""
    found = 0

    def attached(change: Change, sentence: str, trains: bool = False) -> int:
        lines: list[str] = []
        with patched(attachment, "warn", lines.append), patched(watched, "warn", lines.append):
            call = call_of(ranks, workers, change)
            runtime = attach(call.model, call.path, **call.words)
            assert runtime is not None
            for sync in (False, True) if trains else ():
                call.model.require_backward_grad_sync = sync
                call.model(torch.randn(9, 128)).square().mean().backward()
        runtime.close()
        tried = runtime.controls.plan.unverified
        said = sum(bool(re.search(sentence or "calibrated", line)) for line in lines)
        wrong = int(tried is not (bool(sentence) and not trains))
        return wrong + int(said != (bool(sentence) and ranks.rank == 0))

    found += attached(_both(_valid_for(), _set(strict=True, **_told())), "")
    for name, words, line in OUTSIDE:
        found += attached(_outside(name, words), f"{line}.*every region is tried")
    for line in ("batch_per_worker is 9, calibrated for 4 to 8; tell", "amp is off, calibrated"):
        found += attached(_valid_for(), line, trains=True)
    return found


_NO_FILE = "No such file|cannot be read"
_OTHER = "rank 1 has another profile"
_SIGNAL = _text("feedback = true", 'signal = "momentum"')
_FIXED = _text("feedback = true", 'scale = "fixed:0.01"')
REFUSED: list[tuple[str, Change, str]] = [
    ("no file", _no_file, _NO_FILE),
    ("no TOML", _text("version", "= version"), "TOML"),
    ("unknown key", _text("verified =", "verifyed ="), "verifyed"),
    ("another format", _text("fabric-profile", "fabric"), "format"),
    ("a newer version", _text("version = 1", "version = 9"), "version"),
    (
        "a scale of codes",
        _text('"G_TERNARY", feedback = true', '"G_INT8", scale = "rms"'),
        "scale rms: G_INT8 has the scale of its codes; leave it out",
    ),
    ("unknown route", _text("G_TERNARY", "G_OCTAL"), "G_OCTAL"),
    ("no number", _text("elements = 222", 'elements = "many"'), "many"),
    ("no parameter", _text("c.weight", "d.weight"), "'d.weight'.*matches no"),
    ("two regions", _text("[ab].w", "[abc].w"), "c.weight is in regions"),
    (
        "feedback with momentum",
        _text("feedback = true", 'feedback = true, signal = "momentum"'),
        "feedback with a momentum signal",
    ),
    (
        "another model, strict",
        _both(_text("sha256:", "sha256:0"), _set(strict=True)),
        "fingerprint is another",
    ),
    (
        "a fixed scale with GradScaler",
        _both(_FIXED, _set(scaler=Scaler())),
        "fixed:0.01.*GradScaler",
    ),
    ("momentum twice", _both(_SIGNAL, _momentum), "'c' votes with its momentum.*momentum=0"),
    ("unknown path", _set(fp32="fast"), "fp32 'fast' is none of ring, ordered, whole"),
    ("unknown reducer", _set(reducer="pigeon"), "reducer 'pigeon' is none of torch, unix:PATH"),
    ("no server", _set(reducer="unix:/nowhere/s"), "/nowhere/s: no reducer server is there; start"),
    ("a long socket", _set(reducer="unix:" + "s" * 120), "has 107 bytes at most, this one 120"),
    ("no socket", _set(reducer="unix:"), "names no socket; write unix:PATH"),
    ("no steps", _set(steps=-1), "attach: steps is -1; give a number above 0"),
    ("steps that are a text", _set(steps="9"), "attach: steps is '9'; give a number above 0"),
    ("no time", _set(timeout_s=float("nan")), "timeout_s is nan; give a number above 0"),
    (
        "a threshold that is none",
        _text("sample_every", "smaple_every"),
        "profile 'net': monitor: field 'smaple_every' is not known here; mend",
    ),
    ("a scale of no float32", _text("feedback = true", "shrink = 1e-60"), "shrink 1e-60 is no"),
    *(
        (f"another {name}, strict", _both(_outside(name, words), _set(strict=True)), line)
        for name, words, line in OUTSIDE
    ),
    *(
        (
            f"{name} not told, strict",
            _both(_valid_for(), _set(**_told(**{name: None}), strict=True)),
            f"it was calibrated for {line}, and this training's is not told; tell {name}, or leave",
        )
        for name, line in UNTOLD
    ),
    ("no batch", _set(batch=0), "batch is 0; give an integer above 0"),
    ("half a step", _set(accumulation=0.5), "accumulation is 0.5; give an integer above 0"),
    ("clipping by a number", _set(clipping=2.0), "clipping is 2.0; give True or False"),
    ("unknown autocast", _set(amp="tf32"), "amp 'tf32' is none of off, float16, bfloat16"),
    ("one rank's batch", _second(_set(batch=3)), _OTHER),
    ("no scaler", _set(scaler=True), "scaler is a bool; give the training's GradScaler, or False"),
    ("one rank's scaler", _second(_set(scaler=Scaler())), _OTHER),
    ("no choice for NaN", _set(nonfinite="drop"), "nonfinite 'drop' is none of nan, fallback"),
    ("one rank's path", _second(_set(fp32="ordered")), _OTHER),
    ("one rank's profile", _second(_text("steps = 3", "steps = 4")), _OTHER),
    ("one rank's file", _second(_no_file), f"rank 1: .*({_NO_FILE})"),
    ("nothing to train", _freeze, "no parameter of the model is trained|matches frozen"),
    ("not wrapped", lambda call: setattr(call, "model", call.model.module), "Net is no Distrib"),
    ("FSDP", _class("FSDPModule"), "FSDPModule reduces shards"),
    ("DeepSpeed", _class("DeepSpeedEngine"), "DeepSpeedEngine reduces shards"),
    ("a GPU", _elsewhere, "parameters are on meta, and votes are counted on the CPU; train on"),
    (
        "mixed precision of DDP",
        lambda call: setattr(call.model, "mixed_precision", 1),
        "mixed_precision of DDP reduces by a hook of its own; use torch.autocast",
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
        "a hook of torch",
        lambda call: call.model.register_comm_hook(None, allreduce_hook),
        "allreduce_hook is one too",
    ),
    (
        "the hook that captures",
        lambda call: call.model.register_comm_hook(None, capture_hook),
        "capture_hook is one too",
    ),
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
CASES: list[tuple[str, int, Callable[[Ranks, int], int]]] = [
    ("attach trains by the profile", 4, trains),
    ("codes: attach trains by the profile", 4, partial(trains, wide="G_INT8", c="G_INT4")),
    ("attach without a profile", 2, nothing),
    ("attach under other conditions", 2, conditions),
    ("attach without a scaler", 2, tells_of_the_scaler),
    ("attach without a log, one worker", 1, without_a_log),
    ("refused: a hook behind it", 2, after_it),
    *(
        (f"refused: {name}", 2, partial(refused, change=change, sentence=sentence))
        for name, change, sentence in REFUSED
    ),
]
"""Name, workers, and what counts what is wrong."""

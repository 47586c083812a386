# SPDX-License-Identifier: Apache-2.0
"""Captures, and names of wrapped models, in every way to run a job: what a capture loses it says,
and the training goes on."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import ddp, ranks
from neuron_fabric.capture import Capture, writer
from neuron_fabric.capture.safetensors_io import TensorFileWriter
from neuron_fabric.capture.writer import CaptureFolder
from neuron_fabric.comm_hooks import state_of
from neuron_fabric.hook import attach, attachment, refusal
from neuron_fabric.profile import fingerprint, sketch
from neuron_fabric.tests.ddp.attach_cases import text_of
from neuron_fabric.tests.ddp.law_ranks import Net, Ranks, differ, patched

WORKERS = 2


class Training:
    """A training of this rank's own, with its folder, and the lines that were said."""

    def __init__(self, ranks_: Ranks, name: str, **options: Any) -> None:
        torch.manual_seed(1)
        self.ranks, self.name, self.net = ranks_, name, Net()
        self.folder = Path(ranks_.folder, name.replace(" ", "-"))
        self.folder.mkdir(exist_ok=True)
        self.options = {"process_group": ranks_.of(WORKERS), "bucket_cap_mb": 0.008, **options}
        self.lines: list[str] = []
        self.model: Any = DistributedDataParallel(self.net, **self.options)
        self.losses = 0

    def profile(self) -> Path:
        path = self.folder / f"p{self.ranks.rank}.toml"
        path.write_text(text_of(self.net), encoding="utf-8")
        return path

    def env(self, **more: str) -> dict[str, str]:
        return {"NF_CAPTURE_DIR": str(self.folder / "c"), **more}

    def capture(self, env: Mapping[str, str]) -> int:
        """The exit code of attach; 0: it has come back."""
        try:
            ddp.attach(self.model, env=env)
        except SystemExit as ended:
            return int(ended.code or 0)
        return 0

    def step(self, backwards: int = 1, some: bool = True) -> None:
        for _ in range(backwards):
            draw = torch.Generator().manual_seed(10 * self.losses + self.ranks.rank)
            self.losses += 1
            self.model(torch.randn(4, 128, generator=draw), some).square().mean().backward()

    def said(self, *texts: str) -> int:
        """Texts that no rank has said."""
        every: list[Any] = [None] * WORKERS
        group = self.ranks.of(WORKERS)
        torch.distributed.all_gather_object(every, self.lines, group=group)
        lines = [line for one in every for line in one]
        return sum(not any(text in line for line in lines) for text in texts)

    def steps(self, folder: str = "c") -> tuple[int, ...]:
        torch.distributed.barrier(self.ranks.of(WORKERS))
        return Capture.open(self.folder / folder).steps


def case(do: Callable[[Training], int], **options: Any) -> Callable[[Ranks, int], int]:
    def run(ranks_: Ranks, workers: int) -> int:
        one = Training(ranks_, "-".join((do.__name__, *options)), **options)
        with (
            patched(ddp, "warn", one.lines.append),
            patched(refusal, "warn", one.lines.append),
            patched(attachment, "warn", one.lines.append),
        ):
            return do(one)

    return run


def beneath_a_profile(one: Training) -> int:
    """Captured are the gradients of each worker, not the votes."""
    path = one.profile()
    runtime = attach(one.model, path, scaler=False, env=one.env())
    plain = Training(one.ranks, "plain")
    found = int(one.capture(one.env()) != 0)  # a script with both lines
    with plain.model.no_sync():
        for step in range(6):
            plain.net.zero_grad()
            one.net.zero_grad()
            plain.step()
            one.step()
            if step == 5:
                own = {n: p.grad.clone() for n, p in plain.net.named_parameters()}
    assert runtime is not None
    found += int(str(runtime.routes["wide"].route) != "G_BINARY")
    runtime.close()
    found += int(one.steps() != (0, 1, 2, 3, 4, 5))
    held = Capture.open(one.folder / "c").load(5)
    for name, gradient in own.items():
        found += differ(torch.from_numpy(held[name][one.ranks.rank].copy()), gradient)
    return found


def before_a_profile(one: Training) -> int:
    """The capture's line stands first in the script."""
    found = one.capture(one.env())
    runtime = attach(one.model, one.profile(), scaler=False, env=one.env())
    one.step(4)
    assert runtime is not None
    found += int(not runtime.sent["G_BINARY"] > 0)
    runtime.close()
    return found + int(one.steps() != (0, 1, 2, 3))


def without_a_profile(one: Training) -> int:
    """The runtime's attach alone captures too."""
    found = int(attach(one.model, env=one.env()) is not None)
    one.step(2)
    return found + int(one.steps() != (0, 1))


def resumed(one: Training) -> int:
    """From a checkpoint: the capture counts steps as the training does."""
    before = Training(one.ranks, "checkpoint")
    first = attach(before.model, before.profile(), scaler=False, env={})
    second = attach(one.model, one.profile(), scaler=False, env=one.env())
    assert first is not None
    assert second is not None
    before.step(3)
    second.load_state_dict(first.state_dict())
    one.step(2)
    first.close()
    second.close()
    return int(one.steps() != (3, 4))


def of_ignored_parameters(one: Training) -> int:
    """Names that DDP is told are those of the wrapped model."""
    net = compiled(one.net)
    ignored = ["_orig_mod.a.weight"]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ignored)
    one.model = DistributedDataParallel(net, **one.options)
    found = one.capture(one.env())
    one.step(2)
    torch._dynamo.reset()
    found += int(one.steps() != (0, 1))
    names = [spec.name for spec in Capture.open(one.folder / "c").tensors]
    return found + int(names != [n for n, _ in one.net.named_parameters() if n != "a.weight"])


def profile_twice(one: Training) -> int:
    path = one.profile()
    runtime = attach(one.model, path, scaler=False, env=one.env())
    try:
        attach(one.model, path, scaler=False, env=one.env())
        found = 1
    except SystemExit as ended:
        found = int(ended.code != 2)
    assert runtime is not None
    runtime.close()
    return found + one.said("this model has a profile already; call attach once a model")


def on_one_rank_alone(one: Training) -> int:
    """A variable that one machine does not have."""
    mine = one.ranks.rank == 0
    found = int(one.capture(one.env() if mine else {}) != (2 if mine else 0))
    other = Training(one.ranks, "other")
    try:
        attach(other.model, one.profile() if mine else None, env={})
        found += int(mine)
    except SystemExit:
        found += int(not mine) + other.capture({})  # as rank 1 has, or their counts would differ
    found += one.said("rank 1 has no NF_CAPTURE_DIR; start all ranks alike")
    return found + one.said("rank 1 has no profile; start all ranks alike")


def attach_on_one_rank_alone(one: Training) -> int:
    """Others call it too late."""
    found = 0
    if one.ranks.rank == 0:
        with patched(ranks, "LATE_S", 0.2):
            found = int(one.capture(one.env()) != 2)
    found += one.said("rank 1 has not called attach in 0.2 s")
    return found + (one.capture({}) if one.ranks.rank == 1 else 0)


def other_steps(one: Training) -> int:
    found = int(one.capture(one.env(NF_CAPTURE_STEPS=f"{one.ranks.rank}-9")) != 2)
    found += one.said("rank 1 has another model, or other choices of steps and layers")
    again = {"TORCHELASTIC_RESTART_COUNT": "1"}
    for more, line in (
        ({"NF_CAPTURE_STEPS": ["0", "a"][one.ranks.rank]}, "rank 1: steps 'a': not understood"),
        ({"NF_CAPTURE_STEPS": "b", **again}, ": steps 'b': not understood"),
        ({"NF_CAPTURE_LAYERS": ["a.*", "z"][one.ranks.rank]}, "rank 1: "),
    ):
        found += int(one.capture(one.env(**more)) != 2) + one.said(line)
    return found


def other_folders(one: Training) -> int:
    """Machines without a common folder: refused, but for the ranks of one machine."""
    own = {"NF_CAPTURE_DIR": str(one.folder / f"c{one.ranks.rank}")}
    with patched(writer, "SHOWN_S", 0.1):
        found = int(one.capture(own) != 2)
    found += one.said("c1: is not the folder that the first worker has made; give all machines")
    found += one.capture({**own, "NF_CAPTURE_RANKS": "1"})
    one.step(2)
    return found + int(one.steps("c1") != (0, 1))


def no_folder_to_write(one: Training) -> int:
    """Of one rank, where the lead may write."""

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    with patched(tempfile, "TemporaryFile", full) if one.ranks.rank == 1 else nullcontext():
        code = one.capture(one.env())
    return int(code != 2) + one.said("rank 1: ")


def of_a_full_disk(one: Training) -> int:
    """Also of one that the log is on, and of an error that is no OSError."""
    found = one.capture(one.env())
    one.step()
    errors = [OSError(28, "No space left on device"), RuntimeError("no memory")]
    for error in errors:

        def fails(*_: Any, error: Exception = error) -> int:
            raise error

        with patched(ddp, "_bytes", fails) if one.ranks.rank == 1 else nullcontext():
            one.step()
    one.step()
    found += one.said("step 1 of worker 1 is not captured: [Errno 28]", "step 2 of worker 1 is not")
    found += int(one.steps() != (0, 3))
    state = state_of(one.model)
    assert isinstance(state, ddp.CaptureState)
    ddp._last_look(state._lead, os.getpid())
    found += int(sum("step 1 of worker 1" in line for line in one.lines) > 1)
    return found + one.said("step 1 is not listed: the files of workers 1 have not come")


def of_a_manifest_that_cannot_be_written(one: Training) -> int:
    """The step is listed with the next one."""

    def full(_: Any) -> None:
        raise OSError(28, "No space left on device")

    found = one.capture(one.env())
    with patched(CaptureFolder, "_write_manifest", full):
        one.step()
    found += one.said("steps [0] are not listed yet: [Errno 28]")
    one.step()
    return found + int(one.steps() != (0, 1))


def at_a_limit_of_file_size(one: Training) -> int:
    """As a quota or a full disk: the system itself refuses, in the middle of a file."""
    found = one.capture(one.env())
    one.step()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    if one.ranks.rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        one.step()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    one.step()
    found += one.said("step 1 of worker 1 is not captured: [Errno 27]")
    return found + int(one.steps() != (0, 2))


@contextmanager
def without_privilege() -> Iterator[None]:
    """Take from this thread root's right to write everywhere, which no process of a user has."""
    libc, header = ctypes.CDLL(None), struct.pack("Ii", 0x20080522, 0)
    held = ctypes.create_string_buffer(24)
    libc.capget(header, held)
    effective, *rest = struct.unpack("6I", held.raw)
    libc.capset(header, struct.pack("6I", effective & ~2, *rest))  # CAP_DAC_OVERRIDE
    try:
        yield
    finally:
        libc.capset(header, held.raw)


def of_a_read_only_folder(one: Training) -> int:
    """When attach is called, for one rank, and from the second step on."""
    folder, alone = one.folder / "c", one.ranks.rank == 1
    meet = partial(torch.distributed.barrier, one.ranks.of(WORKERS))
    other = Training(one.ranks, "read-only")
    (other.folder / "c").mkdir(0o555, exist_ok=True)
    with without_privilege() if alone else nullcontext():
        found = int(other.capture(other.env()) != 2)
    found += one.said("Permission denied; choose another folder")
    found += one.capture(one.env())
    one.step()
    if alone:
        (folder / "step-000001").mkdir(0o555)
    meet()
    with without_privilege() if alone else nullcontext():
        one.step()
    one.step()
    found += one.said("step 1 of worker 1 is not captured: [Errno 13]")
    return found + int(one.steps() != (0, 2))


def without_its_folder(one: Training) -> int:
    """Removed, then a file in its place, then made anew."""
    found = one.capture(one.env())
    one.step(2)
    folder, lead = one.folder / "c", one.ranks.rank == 0
    meet = partial(torch.distributed.barrier, one.ranks.of(WORKERS))
    meet()
    if lead:
        shutil.rmtree(folder)
        folder.write_text("a file", encoding="utf-8")
    meet()
    one.step()
    found += one.said("step 2 of worker 1 is not captured", "step 2 of worker 0 is not captured")
    meet()
    if lead:
        folder.unlink()
    meet()
    one.step()
    return found + int(one.steps() != (3,))


def of_a_folder_that_goes_bad(one: Training) -> int:
    """While a file is open: giving it up fails too."""
    found = one.capture(one.env())
    hits: list[Path] = []

    def write(*_: Any) -> None:
        folder = one.folder / "c" / "step-000000"
        if one.ranks.rank == 0 and not hits:
            hits.append(folder.rename(one.folder / "gone"))
            folder.write_text("a file", encoding="utf-8")
        raise OSError(5, "Input/output error")

    with patched(TensorFileWriter, "write", write):
        one.step()
    return found + one.said("step 0 of worker 0 is not captured: [Errno 5]")


def in_another_folder(one: Training) -> int:
    """A path that is relative, and a script that changes its folder."""
    before = Path.cwd()
    try:
        os.chdir(one.folder)
        found = one.capture(one.env(NF_CAPTURE_DIR="c"))
        os.chdir("/")
        one.step(2)
    finally:
        os.chdir(before)
    return found + int(one.steps() != (0, 1))


def restarted(one: Training) -> int:
    """By torchrun, again and again, into a folder that holds what was captured before."""
    found = one.capture(one.env())
    one.step()
    for count, steps in (("1", (0,)), ("2", (0,))):
        one.model = DistributedDataParallel(one.net, **one.options)
        torch.distributed.barrier(one.ranks.of(WORKERS))
        found += one.capture(one.env(TORCHELASTIC_RESTART_COUNT=count))
        one.step()
        found += int(one.steps(f"c-restart-{count}") != steps)
    one.model = DistributedDataParallel(one.net, **one.options)
    found += one.capture({"NF_CAPTURE_DIR": "/dev/null/c", "TORCHELASTIC_RESTART_COUNT": "3"})
    one.step()
    found += one.said("this restart is captured into", "this restart is not captured")
    return found + int(one.steps() != (0,))


def of_uneven_inputs(one: Training) -> int:
    """A rank that has ended is captured as zeros while the others go on."""
    found = one.capture(one.env())
    with one.model.join():
        one.step(3 if one.ranks.rank == 0 else 1)
    held = Capture.open(one.folder / "c").load(2)["a.weight"]
    return found + int(one.steps() != (0, 1, 2)) + int(held[1].any()) + int(not held[0].any())


def of_accumulated_gradients(one: Training) -> int:
    found = one.capture(one.env())
    with one.model.no_sync():
        one.step(2)
    one.model.eval()
    with torch.no_grad():
        one.model(torch.zeros(1, 128))
    one.model.train()
    one.step()
    return found + int(one.steps() != (0,))


def of_options(one: Training) -> int:
    """Unused parameters, a static graph, gradients that are views: all steps."""
    found = one.capture(one.env())
    for step in range(3):
        one.step(some=step != 1 or "static_graph" in one.options)
    return found + int(one.steps() != (0, 1, 2))


def _inside(net: Net, wrap: Callable[[Any], Any]) -> Net:
    net.b = wrap(net.b)
    return net


def compiled(net: Any) -> Any:
    return torch.compile(net, backend="eager")


WRAPPED: dict[str, Callable[[Net, Callable[[Any], Any]], Any]] = {
    "compiled before": lambda net, wrap: wrap(compiled(net)),
    "compiled after": lambda net, wrap: compiled(wrap(net)),
    "compiled before and after": lambda net, wrap: compiled(wrap(compiled(net))),
    "a part compiled": lambda net, wrap: wrap(_inside(net, compiled)),
    "a part with checkpoints": lambda net, wrap: wrap(_inside(net, checkpoint_wrapper)),
    "checkpoints, compiled": lambda net, wrap: wrap(compiled(_inside(net, checkpoint_wrapper))),
}


def wrapped(ranks_: Ranks, workers: int, name: str) -> int:
    """One set of names: in the binding, in residuals, in a capture, in the fingerprint."""
    one, found = Training(ranks_, name, bucket_cap_mb=25), 0
    names, mark, path = [n for n, _ in one.net.named_parameters()], fingerprint(sketch(one.net)), ""
    path = str(one.profile())

    def wrap(net: Any) -> Any:
        return DistributedDataParallel(net, **one.options)

    with patched(attachment, "warn", one.lines.append):
        one.model = WRAPPED[name](one.net, wrap)
        runtime = attach(one.model, path, scaler=False, strict=True, env=one.env())
    assert runtime is not None
    one.step(5)
    found += int(fingerprint(sketch(one.model)) != mark)
    found += int(str(runtime.routes["c"].route) != "G_TERNARY")
    found += int(list(runtime.state_dict()["residuals"]) != ["c.weight"])
    runtime.close()
    torch._dynamo.reset()
    found += int(one.steps() != (0, 1, 2, 3, 4))
    held = Capture.open(one.folder / "c")
    found += int([spec.name for spec in held.tensors] != names) + int(held.model != "Net")
    return found + int([module.name for module in held.modules] != ["a", "b", "c", "head"])


CASES: list[tuple[str, int, Callable[[Ranks, int], int]]] = [
    *(
        (f"a capture {do.__name__.replace('_', ' ')}", WORKERS, case(do))
        for do in (
            beneath_a_profile,
            before_a_profile,
            without_a_profile,
            resumed,
            on_one_rank_alone,
            attach_on_one_rank_alone,
            other_steps,
            other_folders,
            no_folder_to_write,
            of_a_full_disk,
            of_a_manifest_that_cannot_be_written,
            at_a_limit_of_file_size,
            of_a_read_only_folder,
            without_its_folder,
            of_a_folder_that_goes_bad,
            in_another_folder,
            restarted,
            of_uneven_inputs,
            of_accumulated_gradients,
        )
    ),
    (
        "a capture of ignored parameters",
        WORKERS,
        case(of_ignored_parameters, bucket_cap_mb=25),
    ),
    ("a profile twice, captured", WORKERS, case(profile_twice)),
    *(
        (f"a capture of options: {', '.join(options)}", WORKERS, case(of_options, **options))
        for options in (
            {"find_unused_parameters": True},
            {"static_graph": True},
            {"gradient_as_bucket_view": True, "find_unused_parameters": True},
        )
    ),
    *((f"wrapped: {name}", WORKERS, partial(wrapped, name=name)) for name in WRAPPED),
]
"""Name, workers, and what counts what is wrong."""

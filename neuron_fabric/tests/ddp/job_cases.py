# SPDX-License-Identifier: Apache-2.0
"""Cases of captures under faults and options, and of parameter names of wrapped models.

A capture reports what it loses, and the training goes on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import attach, ddp, ranks
from neuron_fabric.capture import Capture, writer
from neuron_fabric.capture.safetensors_io import TensorFileWriter
from neuron_fabric.capture.writer import CaptureFolder
from neuron_fabric.comm_hooks import state_of
from neuron_fabric.hook import refusal
from neuron_fabric.hook.training_session import TrainingSession
from neuron_fabric.profile import fingerprint, sketch
from neuron_fabric.tests.ddp.attach_cases import text_of
from neuron_fabric.tests.ddp.law_ranks import Net, Ranks, law, patched

WORKERS = 2


class Training:
    """Training of a rank with its folder and the lines that it prints."""

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

    def capture(self, env: Mapping[str, str] | None = None, code: int = 0) -> None:
        """Attach without a profile; 0: attach returns, else it ends with that code."""
        got: Any = 0
        try:
            attach(self.model, env=self.env() if env is None else env)
        except SystemExit as ended:
            got = ended.code
        self.ranks.check(got == code, f"attach ends with code {got}, not {code}")

    def attach(self, **words: Any) -> TrainingSession:
        """Attach the profile of this training."""
        session = attach(self.model, self.profile(), scaler=False, **words)
        assert session is not None
        return session

    def step(self, backwards: int = 1, some: bool = True) -> None:
        for _ in range(backwards):
            draw = torch.Generator().manual_seed(10 * self.losses + self.ranks.rank)
            self.losses += 1
            self.model(torch.randn(4, 128, generator=draw), some).square().mean().backward()

    def said(self, *texts: str) -> None:
        """Check that some rank has printed each text."""
        lines = [line for one in self.ranks.gather(WORKERS, self.lines) for line in one]
        for text in texts:
            self.ranks.check(any(text in line for line in lines), f"{text!r} is not in {lines}")

    def steps(self, *steps: int, folder: str = "c") -> Capture:
        """Check the steps of the capture, and return it."""
        torch.distributed.barrier(self.ranks.of(WORKERS))
        capture = Capture.open(self.folder / folder)
        self.ranks.check(capture.steps == steps, f"steps {capture.steps} are captured, not {steps}")
        return capture


def job_case(name: str, **options: Any) -> Callable[[Callable[[Training], None]], Any]:
    """Register a case over one training of two workers with these options of DDP."""

    def register(do: Callable[[Training], None]) -> Callable[[Training], None]:
        def run(ranks_: Ranks, workers: int) -> None:
            one = Training(ranks_, "-".join((do.__name__, *options)), **options)
            with (
                patched(ddp, "warn", one.lines.append),
                patched(refusal, "say_warning", one.lines.append),
            ):
                do(one)

        law(name, WORKERS)(run)
        return do

    return register


@job_case("a capture beneath a profile")
def beneath_a_profile(one: Training) -> None:
    """The capture holds the gradients of each worker, not the votes."""
    session = one.attach(env=one.env())
    plain = Training(one.ranks, "plain")
    with plain.model.no_sync():
        for _ in range(6):
            plain.net.zero_grad()
            one.net.zero_grad()
            plain.step()
            one.step()
    route = session.routes["wide"].route
    one.ranks.check(route == "G_BINARY", f"step 5: route {route}")
    session.close()
    held = one.steps(0, 1, 2, 3, 4, 5).load(5)
    rank = one.ranks.rank
    wanted = {(5, n): p.grad for n, p in plain.net.named_parameters() if p.grad is not None}
    one.ranks.equal({(5, n): torch.tensor(each[rank]) for n, each in held.items()}, wanted)


@job_case("a capture resumed")
def resumed(one: Training) -> None:
    """A capture counts the steps of a training from its checkpoint on."""
    before = Training(one.ranks, "checkpoint")
    first, second = before.attach(env={}), one.attach(env=one.env())
    before.step(3)
    second.load_state_dict(first.state_dict())
    one.step(2)
    first.close()
    second.close()
    one.steps(3, 4)


@job_case("a capture of ignored parameters", bucket_cap_mb=25)
def of_ignored_parameters(one: Training) -> None:
    """Names that DDP ignores are those of the wrapped model."""
    net = compiled(one.net)
    ignored = ["_orig_mod.a.weight"]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ignored)
    one.model = DistributedDataParallel(net, **one.options)
    one.capture()
    one.step(2)
    torch._dynamo.reset()
    names = [spec.name for spec in one.steps(0, 1).tensors]
    wanted = [n for n, _ in one.net.named_parameters() if n != "a.weight"]
    one.ranks.check(names == wanted, f"{names} are captured, not {wanted}")


@job_case("a profile twice, captured")
def profile_twice(one: Training) -> None:
    session = one.attach(env=one.env())
    try:
        one.attach(env=one.env())
        one.ranks.check(False, "a second attach returns")
    except SystemExit as ended:
        one.ranks.check(ended.code == 2, f"exit code {ended.code}")
    session.close()
    one.said("this model is captured already; call attach once a model")


@job_case("a capture on one rank alone")
def on_one_rank_alone(one: Training) -> None:
    """A variable is set on one machine alone."""
    mine = one.ranks.rank == 0
    one.capture(one.env() if mine else {}, code=2 if mine else 0)
    other = Training(one.ranks, "other")
    if mine:
        try:
            attach(other.model, other.profile(), env={})
            one.ranks.check(False, "attach returns with a profile on one rank alone")
        except SystemExit:  # count this capture as rank 1 does
            ranks.silent_rank("NF_CAPTURE_DIR", False, one.ranks.of(WORKERS))
    else:
        other.capture({})
    one.said("rank 1 has no NF_CAPTURE_DIR; start all ranks alike")
    one.said("rank 1 has no profile; start all ranks alike")


@job_case("a capture attach on one rank alone")
def attach_on_one_rank_alone(one: Training) -> None:
    """The other rank calls it too late."""
    if one.ranks.rank == 0:
        with patched(ranks, "LATE_S", 0.2):
            one.capture(code=2)
    one.said("rank 1 has not called attach in 0.2 s")
    if one.ranks.rank == 1:
        one.capture({})


@job_case("a capture other steps")
def other_steps(one: Training) -> None:
    one.capture(one.env(NF_CAPTURE_STEPS=f"{one.ranks.rank}-9"), code=2)
    one.said("rank 1 has another model, or other choices of steps and layers")
    again = {"TORCHELASTIC_RESTART_COUNT": "1"}
    for more, line in (
        ({"NF_CAPTURE_STEPS": ["0", "a"][one.ranks.rank]}, "rank 1: steps 'a': not understood"),
        ({"NF_CAPTURE_STEPS": "b", **again}, ": steps 'b': not understood"),
        ({"NF_CAPTURE_LAYERS": ["a.*", "z"][one.ranks.rank]}, "rank 1: "),
    ):
        one.capture(one.env(**more), code=2)
        one.said(line)


@job_case("a capture other folders")
def other_folders(one: Training) -> None:
    """Refuse machines without a common folder, except for the ranks of one machine."""
    own = {"NF_CAPTURE_DIR": str(one.folder / f"c{one.ranks.rank}")}
    with patched(writer, "SHOWN_S", 0.1):
        one.capture(own, code=2)
    one.said("c1: is not the folder that the first worker has made; give all machines")
    one.capture({**own, "NF_CAPTURE_RANKS": "1"})
    one.step(2)
    one.steps(0, 1, folder="c1")


@job_case("a capture no folder to write")
def no_folder_to_write(one: Training) -> None:
    """One rank cannot write where the lead can."""

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    with patched(tempfile, "TemporaryFile", full) if one.ranks.rank == 1 else nullcontext():
        one.capture(code=2)
    one.said("rank 1: ")


@job_case("a capture of a full disk")
def of_a_full_disk(one: Training) -> None:
    """A full disk, and an error that is no OSError, lose their steps."""
    one.capture()
    one.step()
    errors = [OSError(28, "No space left on device"), RuntimeError("no memory")]
    for error in errors:

        def fails(*_: Any, error: Exception = error) -> int:
            raise error

        with patched(ddp, "_bytes", fails) if one.ranks.rank == 1 else nullcontext():
            one.step()
    one.step()
    one.said("step 1 of worker 1 is not captured: [Errno 28]", "step 2 of worker 1 is not")
    one.steps(0, 3)
    state = state_of(one.model)
    assert isinstance(state, ddp.CaptureState)
    ddp._last_look(state._lead, os.getpid())
    times = sum("step 1 of worker 1" in line for line in one.lines)
    one.ranks.check(times <= 1, f"the loss of step 1 is said {times} times")
    one.said("step 1 is not listed: the files of workers 1 have not come")


@job_case("a capture of a manifest that cannot be written")
def of_a_manifest_that_cannot_be_written(one: Training) -> None:
    """A step is listed with the next one."""

    def full(_: Any) -> None:
        raise OSError(28, "No space left on device")

    one.capture()
    with patched(CaptureFolder, "_write_manifest", full):
        one.step()
    one.said("steps [0] are not listed yet: [Errno 28]")
    one.step()
    one.steps(0, 1)


@job_case("a capture without its folder")
def without_its_folder(one: Training) -> None:
    """The folder is removed, replaced by a file, then created again."""
    one.capture()
    one.step(2)
    folder, lead = one.folder / "c", one.ranks.rank == 0
    meet = partial(torch.distributed.barrier, one.ranks.of(WORKERS))
    meet()
    if lead:
        shutil.rmtree(folder)
        folder.write_text("a file", encoding="utf-8")
    meet()
    one.step()
    one.said("step 2 of worker 1 is not captured", "step 2 of worker 0 is not captured")
    meet()
    if lead:
        folder.unlink()
    meet()
    one.step()
    one.steps(3)


@job_case("a capture of a folder that goes bad")
def of_a_folder_that_goes_bad(one: Training) -> None:
    """The folder goes while a file is open, so that the abort fails too."""
    one.capture()
    hits: list[Path] = []

    def write(*_: Any) -> None:
        folder = one.folder / "c" / "step-000000"
        if one.ranks.rank == 0 and not hits:
            hits.append(folder.rename(one.folder / "gone"))
            folder.write_text("a file", encoding="utf-8")
        raise OSError(5, "Input/output error")

    with patched(TensorFileWriter, "write", write):
        one.step()
    one.said("step 0 of worker 0 is not captured: [Errno 5]")


@job_case("a capture in another folder")
def in_another_folder(one: Training) -> None:
    """The path is relative, and the script changes its folder."""
    before = Path.cwd()
    try:
        os.chdir(one.folder)
        one.capture(one.env(NF_CAPTURE_DIR="c"))
        os.chdir("/")
        one.step(2)
    finally:
        os.chdir(before)
    one.steps(0, 1)


@job_case("a capture restarted")
def restarted(one: Training) -> None:
    """Restart by torchrun, twice, with a folder that holds a capture."""
    one.capture()
    one.step()
    for count in ("1", "2"):
        one.model = DistributedDataParallel(one.net, **one.options)
        torch.distributed.barrier(one.ranks.of(WORKERS))
        one.capture(one.env(TORCHELASTIC_RESTART_COUNT=count))
        one.step()
        one.steps(0, folder=f"c-restart-{count}")
    one.model = DistributedDataParallel(one.net, **one.options)
    one.capture({"NF_CAPTURE_DIR": "/dev/null/c", "TORCHELASTIC_RESTART_COUNT": "3"})
    one.step()
    one.said("this restart is captured into", "this restart is not captured")
    one.steps(0)


@job_case("a capture of uneven inputs")
def of_uneven_inputs(one: Training) -> None:
    """A rank that has ended is captured as zeros while the others continue."""
    one.capture()
    with one.model.join():
        one.step(3 if one.ranks.rank == 0 else 1)
    held = one.steps(0, 1, 2).load(2)["a.weight"]
    for rank, wanted in ((0, True), (1, False)):
        one.ranks.check(
            held[rank].any() == wanted, f"a.weight, step 2, worker {rank}: not {wanted}"
        )


@job_case("a capture of accumulated gradients")
def of_accumulated_gradients(one: Training) -> None:
    one.capture()
    with one.model.no_sync():
        one.step(2)
    one.model.eval()
    with torch.no_grad():
        one.model(torch.zeros(1, 128))
    one.model.train()
    one.step()
    one.steps(0)


@job_case("a capture of options: find_unused_parameters", find_unused_parameters=True)
@job_case("a capture of options: static_graph", static_graph=True)
@job_case(
    "a capture of options: gradient_as_bucket_view, find_unused_parameters",
    gradient_as_bucket_view=True,
    find_unused_parameters=True,
)
def of_options(one: Training) -> None:
    """Capture all steps with unused parameters, a static graph, gradients that are views."""
    one.capture()
    for step in range(3):
        one.step(some=step != 1 or "static_graph" in one.options)
    one.steps(0, 1, 2)


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


def wrapped(ranks_: Ranks, workers: int, way: str) -> None:
    """Binding, residuals, capture and fingerprint have one set of names."""
    one = Training(ranks_, way, bucket_cap_mb=25)
    names, mark = [n for n, _ in one.net.named_parameters()], fingerprint(sketch(one.net))
    one.profile()  # of the bare model

    def wrap(net: Any) -> Any:
        return DistributedDataParallel(net, **one.options)

    with patched(refusal, "say_warning", one.lines.append):
        one.model = WRAPPED[way](Net(), wrap)
        path = one.folder / f"p{ranks_.rank}.toml"
        session = attach(one.model, path, scaler=False, strict=True, env=one.env())
    assert session is not None
    one.step(5)
    residuals = [*session.state_dict()["residuals"]]
    route = session.routes["c"].route
    session.close()
    torch._dynamo.reset()
    held = one.steps(0, 1, 2, 3, 4)
    for what, got, wanted in (
        ("fingerprint", fingerprint(sketch(one.model)), mark),
        ("route", str(route), "G_TERNARY"),
        ("residuals", residuals, ["c.weight"]),
        ("tensors", [spec.name for spec in held.tensors], names),
        ("model", held.model, "Net"),
        ("modules", [module.name for module in held.modules], ["a", "b", "c", "head"]),
    ):
        ranks_.check(got == wanted, f"{what} {got}, not {wanted}")


for _name in WRAPPED:
    law(f"wrapped: {_name}", WORKERS, way=_name)(wrapped)

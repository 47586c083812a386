# SPDX-License-Identifier: Apache-2.0
"""Cases of captures: under faults, under options, and with parameter names of wrapped models.

A capture that cannot write a step says which step is lost, and the training goes on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import chdir, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric import attach, rank_agreement
from neuron_fabric.capture import writer
from neuron_fabric.capture.safetensors_io import TensorFileWriter
from neuron_fabric.capture.writer import CaptureFolder
from neuron_fabric.hook import attach_checks, capture_hook, hook_state
from neuron_fabric.profile import fingerprint, sketch
from neuron_fabric.tests.ddp.attach_cases import Training
from neuron_fabric.tests.ddp.law_testbench import Net, Ranks, law, patched

WORKERS = 2
NO_SPACE = OSError(28, "No space left on device")


def job_case(name: str, **options: Any) -> Callable[[Callable[[Training], None]], Any]:
    """Return a decorator that registers a function of one `Training` of two workers as a case.

    Args:
        name: Name of the case.
        **options: Options of DistributedDataParallel.
    """

    def register(do: Callable[[Training], None]) -> Callable[[Training], None]:
        def run(ranks_: Ranks, workers: int) -> None:
            one = Training(ranks_, "-".join((do.__name__, *options)), **options)
            with (
                patched(capture_hook, "warn", one.lines.append),
                patched(attach_checks, "say_warning", one.lines.append),
            ):
                do(one)

        law(name, WORKERS)(run)
        return do

    return register


@job_case("a capture beneath a profile")
def beneath_a_profile(one: Training) -> None:
    """Check that a capture with a profile holds each worker's own FP32 gradients.

    They are not the reduced ones, although the routes are low-bit.
    """
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
    """Check that after load_state_dict a capture numbers its steps from that of the checkpoint
    on.
    """
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
    """Check that a parameter which DDP ignores by its compiled name is not captured."""
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
    one.ranks.ends(lambda: one.attach(env=one.env()))
    session.close()
    one.said("this model is captured already; call attach once a model")


@job_case("a capture on one rank alone")
def on_one_rank_alone(one: Training) -> None:
    """Check the refusal if only rank 0 has NF_CAPTURE_DIR, and if only rank 0 has a profile.

    Rank 0 ends with code 2 and one line; on rank 1 `attach` returns without a capture.
    """
    mine = one.ranks.rank == 0
    one.capture(one.env() if mine else {}, code=2 if mine else 0)
    other = Training(one.ranks, "other")
    if mine:
        one.ranks.ends(lambda: attach(other.model, other.path, env={}))
        # Count this capture as rank 1 does.
        rank_agreement.silent_rank("NF_CAPTURE_DIR", False, one.ranks.of(WORKERS))
    else:
        other.capture({})
    one.said("rank 1 has no NF_CAPTURE_DIR; start all ranks alike")
    one.said("rank 1 has no profile; start all ranks alike")


@job_case("a capture attach on one rank alone")
def attach_on_one_rank_alone(one: Training) -> None:
    """Check that rank 0 exits with a line if rank 1 does not call `attach` in ``LATE_S``
    seconds.
    """
    if one.ranks.rank == 0:
        with patched(rank_agreement, "LATE_S", 0.2):
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
    """Check that ranks with different capture folders are refused, unless one rank is captured.

    With NF_CAPTURE_RANKS=1 rank 1 alone is captured, so that no common folder is needed.
    """
    own = {"NF_CAPTURE_DIR": str(one.folder / f"c{one.ranks.rank}")}
    with patched(writer, "SHOWN_S", 0.1):
        one.capture(own, code=2)
    one.said("c1: is not the folder that the first worker has made; give all machines")
    one.capture({**own, "NF_CAPTURE_RANKS": "1"})
    one.step(2)
    one.steps(0, 1, folder="c1")


@job_case("a capture no folder to write")
def no_folder_to_write(one: Training) -> None:
    """Check that `attach` exits on all ranks, and names rank 1, if only rank 1 cannot write."""
    full = patched(tempfile, "TemporaryFile", side_effect=NO_SPACE)
    with full if one.ranks.rank == 1 else nullcontext():
        one.capture(code=2)
    one.said("rank 1: ")


@job_case("a capture of a full disk")
def of_a_full_disk(one: Training) -> None:
    """Check that a full disk, or a RuntimeError, loses that step only; each loss is said once."""
    one.capture()
    one.step()
    for error in (NO_SPACE, RuntimeError("no memory")):
        fails = patched(capture_hook, "_bytes", side_effect=error)
        with fails if one.ranks.rank == 1 else nullcontext():
            one.step()
    one.step()
    one.said("step 1 of worker 1 is not captured: [Errno 28]", "step 2 of worker 1 is not")
    one.steps(0, 3)
    state: Any = hook_state._STATES[one.model]
    capture_hook._last_look(state._lead, os.getpid())
    times = sum("step 1 of worker 1" in line for line in one.lines)
    one.ranks.check(times <= 1, f"the loss of step 1 is said {times} times")
    one.said("step 1 is not listed: the files of workers 1 have not come")


@job_case("a capture of a manifest that cannot be written")
def of_a_manifest_that_cannot_be_written(one: Training) -> None:
    """Check that a step whose manifest cannot be written is reported, and listed with the next."""
    one.capture()
    with patched(CaptureFolder, "_write_manifest", side_effect=NO_SPACE):
        one.step()
    one.said("steps [0] are not listed yet: [Errno 28]")
    one.step()
    one.steps(0, 1)


@job_case("a capture without its folder")
def without_its_folder(one: Training) -> None:
    """Check that steps are lost while the folder is missing or a file, and captured again after
    it.
    """
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
    """Check that a step is lost with one line if its folder vanishes during a write.

    The file that replaces the folder makes the removal of the partial step fail too.
    """
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
    """Check that a relative capture folder is kept when the script changes its working
    directory.
    """
    with chdir(one.folder):
        one.capture(one.env(NF_CAPTURE_DIR="c"))
        with chdir("/"):
            one.step(2)
    one.steps(0, 1)


@job_case("a capture restarted")
def restarted(one: Training) -> None:
    """Check that a restart by torchrun captures into ``c-restart-N``, and leaves the first capture.

    A restart without a usable folder says that it is not captured, and trains.
    """
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
    """Check that a rank without further inputs is captured as zeros under DDP's `join`."""
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
    """Check that all steps are captured with unused parameters, a static graph, or bucket views."""
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
    """Check that names are those of the bare net however it is compiled or wrapped.

    Fingerprint, bound regions, residuals, and names in the capture are compared.

    Args:
        ranks_: Ranks of the case.
        workers: Number of workers.
        way: Key of `WRAPPED`: order of torch.compile, checkpoint_wrapper and DDP.
    """
    one = Training(ranks_, way, bucket_cap_mb=25)
    names, mark = [n for n, _ in one.net.named_parameters()], fingerprint(sketch(one.net))

    def wrap(net: Any) -> Any:
        return DistributedDataParallel(net, **one.options)

    with patched(attach_checks, "say_warning", one.lines.append):
        one.model = WRAPPED[way](Net(), wrap)
        session = one.attach(strict=True, env=one.env())
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

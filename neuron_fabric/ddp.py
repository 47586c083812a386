# SPDX-License-Identifier: Apache-2.0
"""The communication hook that captures gradients from DistributedDataParallel; needs torch.

In a training script, after the model has been wrapped and before the first backward::

    from neuron_fabric.ddp import attach

    model = DistributedDataParallel(net)
    attach(model)

`attach` does nothing unless NF_CAPTURE_DIR is set (`nf capture` sets it). With choices in the
script instead of the environment::

    state = CaptureState(model, "captures/mine", Selection.parse(steps="0-1000:50"))
    model.register_comm_hook(state, capture_hook)

Gradients are those of each worker before reduction, by parameter, in the dtype of the parameter.
Training goes on as it would without: the hook hands each bucket to the hook that reduces, which by
default computes what DDP computes without a hook, bit for bit (`DdpMean`).
"""

# No postponed annotations here: register_comm_hook looks at those of the hook.

import atexit
import os
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.capture.layout import MANIFEST, MAX_STEP, TensorSpec
from neuron_fabric.capture.safetensors_io import TensorFileWriter
from neuron_fabric.capture.selection import FOLDER, Selection
from neuron_fabric.capture.trained_model import (
    check_model,
    hook_of,
    modules_of,
    second_hook,
    sparse_tensors,
)
from neuron_fabric.capture.writer import CaptureFolder, check_shared, check_tensors, worker_writer
from neuron_fabric.comm_hooks import HookState, state_of
from neuron_fabric.errors import CaptureError, warn
from neuron_fabric.mean import DdpMean
from neuron_fabric.ranks import is_first, other_rank, silent_rank, together
from neuron_fabric.wrapped import bare_model, clean_name, ddp_model, named_parameters

Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]

PENDING = 16
"""Steps that may wait for files of other workers, which a shared file system may show late."""
_RESTARTS = (("SLURM_RESTART_COUNT", "requeue"), ("TORCHELASTIC_RESTART_COUNT", "restart"))
_GLOO_SECONDS = 0.1
_DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class CaptureState(HookState):
    """State of the hook that captures. ``step`` is the number of the next reduction, from 0; a
    script that resumes a training may set it.

    Whatever fails while a step is written costs the step, with one line on stderr, never the
    training.
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        folder: str | os.PathLike[str],
        selection: Selection | None = None,
        *,
        name: str = "",
        note: str = "",
        reduce: Hook | None = None,
        reduce_state: Any = None,
    ) -> None:
        """Make the folder; every rank calls it, as it does DistributedDataParallel itself.

        ``reduce`` with ``reduce_state`` is the hook that reduces: `DdpMean` by default.
        CaptureError, on every rank, when nothing can be captured as asked.
        """
        model = ddp_model(model)
        if not isinstance(model, DistributedDataParallel):
            check_model(model)
        self.step, self.group = 0, model.process_group
        self.implied = False
        """Whether a profile's `attach` has made it, which the script did not ask to capture."""
        self._path = Path(folder).absolute()  # the script may go to another folder
        chosen = selection or Selection()
        ranks, tensors = together(lambda: self._chosen(model, chosen), self.group)
        if (other := other_rank(repr((chosen, tensors)), self.group)) is not None:
            what = f"rank {other} has another model, or other choices of steps and layers, than"
            raise CaptureError("attach", f"{what} rank 0", "start all ranks alike")
        self.plain = reduce is None
        """Whether it reduces as DDP does without a hook."""
        self.reduce, self.reduce_state = reduce or DdpMean(model), reduce_state
        wanted = {spec.name for spec in tensors}
        self._names = {id(p): n for n, p in named_parameters(model) if n in wanted}
        self._steps, self._tensors = chosen.steps, tensors
        rank, size = dist.get_rank(self.group), dist.get_world_size(self.group)
        self._worker = ranks.index(rank) if rank in ranks else None
        self._metadata = {"rank": str(rank), "ranks": str(size)}
        self._file: TensorFileWriter | None = None  # of the step under way
        self._lead: CaptureFolder | None = None
        if rank == ranks[0]:
            net, whose = bare_model(model), f"ranks {', '.join(map(str, ranks))} of {size}"
            self._lead = CaptureFolder(
                self._path,
                name or type(net).__name__,
                len(ranks),
                tensors,
                note or f"gradients before reduction, {whose}, torch {torch.__version__}",
                datetime.now(UTC).isoformat(timespec="seconds"),
                modules_of(net, wanted),
            )
        self._make_folder(dist.get_global_rank(self.group, ranks[0]))
        weakref.finalize(self, _last_look, self._lead, os.getpid())
        _sleep_at_exit()

    def refuse(self, hook: str) -> NoReturn:
        """End the script, in one line: it registers another hook on this model."""
        _refuse(second_hook(hook))

    def release(self) -> None:
        """Let the hook that reduces let go, too: torch knows a profile's by this one alone."""
        if isinstance(self.reduce_state, HookState):
            self.reduce_state.release()

    def take(self, bucket: dist.GradBucket) -> bool:
        """Write what the bucket holds; True when the lead has a step to list once it is reduced."""
        if bucket.index() == 0:
            self._collect()
            self._try(self._begin)
        self._try(lambda: self._write(bucket))
        if not bucket.is_last():
            return False
        if self._file is not None:
            self._try(self._file.close)
        closed, self._file = self._file is not None, None
        self.step += 1
        return closed and self._lead is not None

    def finished(self) -> None:
        """List the step before, now that every rank has entered its last reduction."""
        if self._lead is None:
            return
        self._lead.pending.append(self.step - 1)
        self._collect()
        if len(self._lead.pending) > PENDING:
            _say_missing(self._lead, self._lead.pending.pop(0))

    def _chosen(
        self, model: DistributedDataParallel, chosen: Selection
    ) -> tuple[list[int], list[TensorSpec]]:
        """The ranks and tensors to capture. CaptureError."""
        check_model(model)
        ranks = chosen.workers(dist.get_world_size(self.group))
        ignored = set(map(clean_name, getattr(model, "parameters_to_ignore", ())))
        tensors = chosen.tensors(
            [
                TensorSpec(n, tuple(p.shape), _DTYPES.get(p.dtype, str(p.dtype)))
                for n, p in named_parameters(model)
                if p.requires_grad and n not in ignored
            ]
        )
        for sparse in sorted({spec.name for spec in tensors} & sparse_tensors(model)):
            todo = "make the embedding with sparse=False, or leave the layer out"
            raise CaptureError(f"tensor {sparse!r}", "its gradients are sparse", todo)
        check_tensors(self._path, tensors)
        return ranks, tensors

    def _make_folder(self, lead: int) -> None:
        """The lead makes the folder, and the ranks that write have to see it. CaptureError, on
        every rank."""
        made: list[Any] = [None]
        if self._lead is not None:
            try:
                self._lead.create()
                made = [(self._path / MANIFEST).read_bytes()]
            except CaptureError as error:
                made = [error]
        dist.broadcast_object_list(made, src=lead, group=self.group)

        def look() -> None:
            if isinstance(made[0], CaptureError):
                raise made[0]
            if self._worker is not None:
                check_shared(self._path, made[0])

        together(look, self.group)

    def _begin(self) -> None:
        self._give_up()  # what a backward that an exception ended has left
        if self._worker is not None and self.step in self._steps and self.step <= MAX_STEP:
            self._file = worker_writer(
                self._path, self.step, self._worker, self._tensors, self._metadata
            )

    def _give_up(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.abort()

    def _write(self, bucket: dist.GradBucket) -> None:
        if self._file is None or bucket.buffer().is_sparse:
            return  # a sparse one holds none of the chosen tensors
        for parameter, gradient in gradients_of(bucket):
            name = self._names.get(id(parameter))
            if name is not None:
                self._file.write(name, _bytes(gradient))

    def _collect(self) -> None:
        if self._lead is not None:
            _list_steps(self._lead)

    def _try(self, action: Callable[[], None]) -> None:
        """What fails costs the step."""
        try:
            action()
        except Exception as error:  # of the disk mostly; no memory for a copy is one too
            self._give_up()
            _warn(f"step {self.step} of worker {self._worker} is not captured: {error}")


def _list_steps(lead: CaptureFolder) -> None:
    try:
        lead.collect()
    except OSError as error:
        _warn(f"steps {lead.pending} are not listed yet: {error}")


def _last_look(lead: CaptureFolder | None, process: int) -> None:
    """List the steps that are still to be listed, and say which are lost. A process that the
    training has forked has nothing to list."""
    if lead is None or process != os.getpid():
        return
    _list_steps(lead)
    for step in lead.pending:
        _say_missing(lead, step)


def _say_missing(lead: CaptureFolder, step: int) -> None:
    workers = ", ".join(map(str, lead.missing(step)))
    _warn(f"step {step} is not listed: the files of workers {workers} have not come")


@cache
def _sleep_at_exit() -> None:
    """Give gloo a moment: its threads abort the process when they let go of the last gradients
    after Python has ended."""
    atexit.register(time.sleep, _GLOO_SECONDS)


def _warn(text: str) -> None:
    warn(f"nf capture: {text}")


def capture_hook(
    state: CaptureState, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """For `register_comm_hook`: captures the bucket, then reduces it with ``state.reduce``."""
    listing = state.take(bucket)
    reduced = state.reduce(state.reduce_state, bucket)
    if not listing:
        return reduced

    # A rank enters the reduction of its last bucket after it has closed its file. When that is
    # reduced all files are there (with NCCL it may be reported early: then the next step looks).
    def listed(future: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
        state.finished()
        value: torch.Tensor = future.value()
        return value

    return reduced.then(listed)


def attach(
    model: DistributedDataParallel,
    *,
    name: str = "",
    reduce: Hook | None = None,
    reduce_state: Any = None,
    env: Mapping[str, str] = os.environ,
) -> CaptureState | None:
    """Capture as the environment says (NF_CAPTURE_DIR, _STEPS, _RANKS, _LAYERS).

    Without NF_CAPTURE_DIR, or with it empty, nothing is registered and None returned. When nothing
    can be captured as asked the script ends with one line and exit code 2; but in a restart (by
    torchrun or Slurm) the training goes on: into a folder for this restart where the folder holds
    what was captured before, else without a capture.
    """
    model = ddp_model(model)
    if isinstance(held := state_of(model), CaptureState) and held.implied:
        held.implied = False
        return held
    try:
        state = captured(model, env, name=name, reduce=reduce, reduce_state=reduce_state)
        if state is not None:
            model.register_comm_hook(state, capture_hook)
    except CaptureError as error:
        _refuse(error)
    return state


def register(
    model: DistributedDataParallel, reduce_state: Any, reduce: Hook | None, env: Mapping[str, str]
) -> CaptureState | None:
    """Register a hook that reduces (None: DDP's own reduction), with the capture that the model has
    or the environment asks for, which is returned. CaptureError, on every rank."""
    state = state_of(model)
    if not isinstance(state, CaptureState):
        state = captured(model, env, reduce=reduce, reduce_state=reduce_state)
        if state is not None:
            state.implied = True
            model.register_comm_hook(state, capture_hook)
        elif reduce is not None:
            model.register_comm_hook(reduce_state, reduce)
    elif reduce is not None:
        state.reduce, state.reduce_state, state.plain = reduce, reduce_state, False
    return state


def reducing_hook(model: Any) -> str:
    """Return the name of the hook that reduces, or nothing where `register` can set one."""
    state = state_of(model)
    if not isinstance(state, CaptureState):
        return hook_of(model)
    return "" if state.plain else str(getattr(state.reduce, "__name__", state.reduce))


def captured(model: Any, env: Mapping[str, str], **words: Any) -> CaptureState | None:
    """The state that the environment asks for, which is to be registered; None: none. CaptureError,
    on every rank."""
    folder = env.get(FOLDER, "")
    if isinstance(model, DistributedDataParallel) and (
        silent := silent_rank(FOLDER, bool(folder), model.process_group)
    ):
        raise CaptureError("attach", silent, "start all ranks alike")
    if not folder:
        return None
    again = "".join(f"-{word}-{env[name]}" for name, word in _RESTARTS if env.get(name, "0") != "0")
    if not isinstance(model, DistributedDataParallel):
        check_model(model)  # there is no group to agree with
    selection = together(lambda: Selection.from_environment(env), model.process_group)
    try:
        return CaptureState(model, folder, selection, **words)
    except CaptureError as error:
        if not again:
            raise
        first = error
    try:
        state = CaptureState(model, folder + again, selection, **words)
        todo = f"this restart is captured into {folder + again}"
    except CaptureError as error:
        state, first, todo = None, error, "this restart is not captured"
    text = f"{first.where}: {first.what}; {todo}"
    if is_first(text, model.process_group):
        _warn(text)
    return state


def _refuse(error: CaptureError) -> NoReturn:
    """One line for all ranks."""
    if is_first(str(error)):
        _warn(str(error))
    raise SystemExit(2) from None


def gradients_of(bucket: dist.GradBucket) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(parameter, its gradient) of a bucket; the gradient is a view of the bucket's buffer.

    The buffer keeps the elements in the parameter's own memory order (channels last, say), while
    ``bucket.gradients()`` shapes them as if every parameter were contiguous.
    """
    for parameter, flat in zip(bucket.parameters(), bucket.gradients(), strict=True):
        if parameter.is_contiguous() or not _dense(parameter):
            yield parameter, flat
        else:
            sizes, strides = parameter.size(), parameter.stride()
            yield parameter, flat.as_strided(sizes, strides, flat.storage_offset())


def _dense(tensor: torch.Tensor) -> bool:
    """Every element at a place of its own, without holes, in whatever order of dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _bytes(gradient: torch.Tensor) -> Any:
    """The elements in C order as uint8[n]: a view where the tensor is contiguous and on the CPU."""
    flat = gradient.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()

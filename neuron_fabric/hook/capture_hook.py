# SPDX-License-Identifier: Apache-2.0
"""Communication hook of DistributedDataParallel that captures gradients; needs torch.

`neuron_fabric.attach` registers it if NF_CAPTURE_DIR is set. A script that sets the choices itself
registers it in place of `attach`, before the first backward::

    state = CaptureState(model, "captures/mine", Selection.parse(steps="0-1000:50"))
    model.register_comm_hook(state, capture_hook)

The capture holds the gradients of each worker before reduction, by parameter, in the dtype of the
parameter. The training does not change: the hook passes each bucket to the hook that reduces, which
by default computes bit for bit what DDP computes without a hook (`DdpMean`).
"""

# No postponed annotations here: register_comm_hook looks at those of the hook.

import atexit
import os
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.capture.layout import MANIFEST, MAX_STEP, ModuleSpec, TensorSpec
from neuron_fabric.capture.safetensors_io import TensorFileWriter
from neuron_fabric.capture.selection import FOLDER, Selection, selects
from neuron_fabric.capture.writer import CaptureFolder, check_shared, check_tensors, worker_writer
from neuron_fabric.errors import CaptureError, warn
from neuron_fabric.hook.attach_checks import check_model
from neuron_fabric.hook.hook_state import HookState, then_once
from neuron_fabric.rank_agreement import is_first, other_rank, silent_rank, together
from neuron_fabric.wrapped import bare_model, clean_name, ddp_model, named_modules, named_parameters

Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]

PENDING = 16
"""Number of steps that wait for files of other workers: shared file systems show them late."""
_RESTARTS = (("SLURM_RESTART_COUNT", "requeue"), ("TORCHELASTIC_RESTART_COUNT", "restart"))
_GLOO_SECONDS = 0.1
_DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class CaptureState(HookState):
    """State of the communication hook that captures gradients to files; ``step`` is the next step.

    A failure while a step is written loses that step, with one line on stderr, never the training.
    """

    def __init__(
        self,
        model: DistributedDataParallel,
        folder: str | os.PathLike[str],
        selection: Selection | None = None,
        *,
        name: str = "",
        reduce: Hook | None = None,
        reduce_state: Any = None,
        first_step: int = 0,
    ) -> None:
        """Agree with the other ranks on what to capture and create the folder; a collective call.

        Args:
            model: DistributedDataParallel model, before its first backward.
            folder: folder of the capture.
            selection: steps, ranks and layers; None: all.
            name: name of the model in the manifest; "": its class.
            reduce: hook that reduces; None: `DdpMean`.
            reduce_state: state of that hook.
            first_step: number of the next step, for a training that resumes.

        Raises:
            CaptureError: the choices cannot be met; raised on every rank.
        """
        model = ddp_model(model)
        if not isinstance(model, DistributedDataParallel):
            check_model(model, profile=False)
        self.step, self.group = first_step, model.process_group
        self._path = Path(folder).absolute()  # the script may go to another folder
        chosen = selection or Selection()
        ranks, tensors = together(lambda: self._chosen(model, chosen), self.group)
        if (other := other_rank(repr((chosen, tensors)), self.group)) is not None:
            what = f"rank {other} has another model, or other choices of steps and layers, than"
            raise CaptureError("attach", f"{what} rank 0", "start all ranks alike")
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
                f"gradients before reduction, {whose}, torch {torch.__version__}",
                datetime.now(UTC).isoformat(timespec="seconds"),
                modules_of(net, wanted),
            )
        self._make_folder(dist.get_global_rank(self.group, ranks[0]))
        weakref.finalize(self, _last_look, self._lead, os.getpid())
        _sleep_at_exit()

    def release(self) -> None:
        """Release the state of the hook that reduces, which torch knows only through this state."""
        if isinstance(self.reduce_state, HookState):
            self.reduce_state.release()

    def take(self, bucket: dist.GradBucket) -> bool:
        """Write the gradients of a bucket before it is reduced; the last bucket ends the step.

        Returns:
            True if this rank is the lead and has a step to list after the reduction of this bucket.
        """
        if bucket.index() == 0:
            _list_steps(self._lead)
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
        """List the last step in the manifest, now that every rank has entered its last reduction.

        Only the lead lists steps. Beyond `PENDING` steps with missing files the oldest one is given
        up.
        """
        if self._lead is None:
            return
        self._lead.pending.append(self.step - 1)
        _list_steps(self._lead)
        if len(self._lead.pending) > PENDING:
            _say_missing(self._lead, self._lead.pending.pop(0))

    def _chosen(
        self, model: DistributedDataParallel, chosen: Selection
    ) -> tuple[list[int], list[TensorSpec]]:
        """Return the ranks and tensors to capture.

        Raises:
            CaptureError: The choices match nothing, or a tensor cannot be captured.
        """
        check_model(model, profile=False)
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
        """Create the folder on the lead, and check that all ranks that write see it.

        Args:
            lead: Global rank of the lead.

        Raises:
            CaptureError: It failed on some rank; raised on every rank.
        """
        own = self._lead
        together(lambda: own.create() if own is not None else None, self.group)
        made = [(self._path / MANIFEST).read_bytes() if own is not None else b""]
        dist.broadcast_object_list(made, src=lead, group=self.group)
        writes = self._worker is not None
        together(lambda: check_shared(self._path, made[0]) if writes else None, self.group)

    def _begin(self) -> None:
        self._give_up()  # the file of a backward that an exception has ended
        if self._worker is not None and selects(self._steps, self.step) and self.step <= MAX_STEP:
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

    def _try(self, action: Callable[[], None]) -> None:
        """Run an action of a capture; if it raises, give up this step's file with a warning."""
        try:
            action()
        except Exception as error:  # of the disk mostly; no memory for a copy is one too
            self._give_up()
            _warn(f"step {self.step} of worker {self._worker} is not captured: {error}")


def _list_steps(lead: CaptureFolder | None) -> None:
    if lead is None:
        return
    try:
        lead.collect()
    except OSError as error:
        _warn(f"steps {lead.pending} are not listed yet: {error}")


def _last_look(lead: CaptureFolder | None, process: int) -> None:
    """List the pending steps at the end, and report those that are lost.

    It does nothing in a process that the training has forked.
    """
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
    """Delay the exit of the process by 0.1 s.

    Threads of gloo that release gradients after Python has ended abort the process.
    """
    atexit.register(time.sleep, _GLOO_SECONDS)


def _warn(text: str) -> None:
    warn(f"nf capture: {text}")


def capture_hook(
    state: CaptureState, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """Capture a bucket, then reduce it with ``state.reduce``: the hook for `register_comm_hook`."""
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

    return then_once(reduced, listed)


def register(
    model: Any, env: Mapping[str, str], reduce: Hook | None, reduce_state: Any, **words: Any
) -> CaptureState | None:
    """Register the hook that reduces, with a capture if NF_CAPTURE_DIR is set.

    In a restart (by torchrun or Slurm) the training continues in any case: into a folder for this
    restart if the folder holds what was captured before, else without a capture.

    Args:
        model: DistributedDataParallel model, before its first backward.
        env: environment variables (NF_CAPTURE_DIR, _STEPS, _RANKS, _LAYERS).
        reduce: hook that reduces; None: the reduction of DDP.
        reduce_state: state of that hook.
        words: further arguments of `CaptureState`.

    Returns:
        The state of the capture, or None without one. Without a capture and ``reduce`` nothing is
        registered.

    Raises:
        LineError: the choices cannot be met; raised on every rank.
    """
    folder = env.get(FOLDER, "")
    if isinstance(model, DistributedDataParallel) and (
        silent := silent_rank(FOLDER, bool(folder), model.process_group)
    ):
        raise CaptureError("attach", silent, "start all ranks alike")
    state = None
    if folder:
        if not isinstance(model, DistributedDataParallel):
            check_model(model, profile=False)  # there is no group to agree with
        state = _captured(model, folder, env, reduce=reduce, reduce_state=reduce_state, **words)
    if state is not None:
        model.register_comm_hook(state, capture_hook)
    elif reduce is not None:
        model.register_comm_hook(reduce_state, reduce)
    return state


def _captured(
    model: DistributedDataParallel, folder: str, env: Mapping[str, str], **words: Any
) -> CaptureState | None:
    """Return the state for a capture, or None if this is a restart that cannot be captured."""
    selection = together(lambda: Selection.from_environment(env), model.process_group)
    again = "".join(f"-{word}-{env[name]}" for name, word in _RESTARTS if env.get(name, "0") != "0")
    first: CaptureError | None = None
    for path in (folder, folder + again) if again else (folder,):
        try:
            state = CaptureState(model, path, selection, **words)
            break
        except CaptureError as error:
            if not again:
                raise
            state, first = None, first or error
    if first is not None:
        todo = f"captured into {folder + again}" if state else "not captured"
        text = f"{first.where}: {first.what}; this restart is {todo}"
        if is_first(text, model.process_group):
            _warn(text)
    return state


def gradients_of(bucket: dist.GradBucket) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield each parameter of a bucket with its gradient, a view of the bucket's buffer.

    The buffer keeps the elements in the parameter's own memory order (channels last, say), while
    ``bucket.gradients()`` shapes them as if every parameter were contiguous.
    """
    for parameter, flat in zip(bucket.parameters(), bucket.gradients(), strict=True):
        if parameter.is_contiguous() or not dense(parameter):
            yield parameter, flat
        else:
            sizes, strides = parameter.size(), parameter.stride()
            yield parameter, flat.as_strided(sizes, strides, flat.storage_offset())


def dense(tensor: torch.Tensor) -> bool:
    """Return whether the elements fill a block of memory without gaps, in any dimension order."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.size(), strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True


def _bytes(gradient: torch.Tensor) -> Any:
    """Return the elements in C order as uint8[n]; no copy of a contiguous tensor on the CPU."""
    flat = gradient.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()


def sparse_tensors(net: Any) -> set[str]:
    """Return the names of parameters with sparse gradients, which `capture_hook` cannot capture.

    These are the parameters of modules with ``sparse=True``.
    """
    names = {id(parameter): name for name, parameter in named_parameters(net)}
    return {
        names[id(parameter)]
        for module in net.modules()
        if getattr(module, "sparse", False) is True
        for parameter in module.parameters(recurse=False)
    }


def modules_of(net: Any, captured: Collection[str]) -> list[ModuleSpec]:
    """Return the modules of ``net`` that hold captured tensors, in the order of the model.

    A module that the model uses several times appears once. The head is the last module with a
    weight matrix that is neither a norm nor an embedding; it need not be captured.
    """
    names = {id(parameter): name for name, parameter in named_parameters(net)}
    found: list[ModuleSpec] = []
    head = ""
    for name, module in named_modules(net):
        own = list(module.parameters(recurse=False))
        spec = ModuleSpec(name, _kind(module), tuple(names[id(one)] for one in own))
        found += [spec] if own else []
        if any(len(one.shape) > 1 for one in own) and not (spec.is_norm or spec.is_embedding):
            head = name
    return [
        ModuleSpec(spec.name, spec.kind, kept, head=spec.name == head)
        for spec in found
        if (kept := tuple(name for name in spec.tensors if name in captured))
    ]


def _kind(module: Any) -> str:
    """Return the name of the torch.nn class that the module derives from, else of its class."""
    for kind in type(module).__mro__:
        if kind.__module__.startswith("torch.nn.") and kind.__name__ != "Module":
            return kind.__name__
    return type(module).__name__


class DdpMean:
    """Hook that computes the mean over ranks, bit-identical to DDP of ``model`` without a hook.

    The `allreduce_hook` of torch is not: it divides every gradient by W, while DDP multiplies by
    1/W as it copies a gradient into the bucket. DDP divides where it has nothing to scale while
    copying: a gradient that is a view of the bucket already (``gradient_as_bucket_view``), sparse
    gradients, and the whole bucket under ``batched_grad_copy``. Unless W is a power of two, the two
    differ in the last bit.

    One option cannot be followed: under ``model.join(divide_by_initial_world_size=False)`` DDP
    scales by the number of ranks that still have data, which a hook does not get.
    """

    def __init__(self, model: DistributedDataParallel) -> None:
        """Prepare the hook; must be called before the first backward of ``model``."""
        self._group, self._workers = model.process_group, dist.get_world_size(model.process_group)
        self._divide = bool(getattr(model, "batched_grad_copy", False))
        # Only where gradients may be views, and where it makes a difference.
        power_of_two = self._workers & (self._workers - 1) == 0
        self._watch = model.gradient_as_bucket_view and not self._divide and not power_of_two
        self._storage: dict[int, int] = {}
        self._views: set[int] = set()
        for parameter in model.module.parameters():
            if self._watch and parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(partial(_note, self._storage))

    def __call__(self, _: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Scale the bucket by 1/W and sum it over the ranks; return the future of its buffer."""
        buffer = bucket.buffer()
        if self._watch and not buffer.is_sparse:
            self.scale(bucket, {n: [one] for n, one in enumerate(bucket.gradients())}, ())
        elif buffer.is_sparse or self._divide:
            buffer.div_(self._workers)
        else:
            buffer.mul_(1.0 / self._workers)
        work = dist.all_reduce(buffer, group=self._group, async_op=True)
        return work.get_future().then(_first)

    def scale(
        self,
        bucket: dist.GradBucket,
        chosen: Mapping[int, Sequence[torch.Tensor]],
        views: Sequence[torch.Tensor],
    ) -> None:
        """Scale the chosen gradients of a dense bucket by 1/W, each as DDP would scale it.

        The decision to multiply or divide uses the address of each gradient when it was
        accumulated: by now all are views. Call it for every bucket, whatever is chosen: the other
        gradients are noted too.

        Args:
            bucket: The bucket.
            chosen: Gradients, or views of their chosen elements, by position in it.
            views: Views of them, adjacent ones in one: used where all are scaled alike.
        """
        if not self._watch:
            self._scale(views, self._divide)
            return
        own = bucket.buffer().untyped_storage().data_ptr()
        for n, parameter in enumerate(bucket.parameters()):
            key = id(parameter)
            # Not accumulated in this step: it is where the step before has left it.
            divide = self._storage.pop(key, own if key in self._views else 0) == own
            self._views.add(key)
            self._scale(chosen.get(n, ()), divide)

    def _scale(self, gradients: Sequence[torch.Tensor], divide: bool) -> None:
        if gradients and divide:
            torch._foreach_div_(list(gradients), self._workers)
        elif gradients:
            torch._foreach_mul_(list(gradients), 1.0 / self._workers)


def _note(storage: dict[int, int], parameter: torch.Tensor) -> None:
    """Store the address of the gradient's memory in ``storage``, before DDP copies the gradient.

    A function, not a method: parameters outlive the group.
    """
    gradient = parameter.grad
    if gradient is not None and not gradient.is_sparse:
        storage[id(parameter)] = gradient.untyped_storage().data_ptr()


def _first(future: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
    return future.value()[0]

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
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from neuron_fabric.capture.layout import MAX_STEP, TensorSpec
from neuron_fabric.capture.safetensors_io import TensorFileWriter
from neuron_fabric.capture.selection import FOLDER, Selection
from neuron_fabric.capture.trained_model import check_model, modules_of, second_hook, sparse_tensors
from neuron_fabric.capture.writer import CaptureFolder, check_tensors, worker_writer
from neuron_fabric.errors import CaptureError
from neuron_fabric.first_rank import is_first
from neuron_fabric.mean import DdpMean
from neuron_fabric.text import say

Hook = Callable[[Any, dist.GradBucket], torch.futures.Future[torch.Tensor]]

_GLOO_SECONDS = 0.1
_DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class CaptureState:
    """What the hook keeps between buckets. ``step`` is the number of the next reduction, from 0; a
    script that resumes a training may set it.

    A disk that refuses to write costs the step, with one line on stderr, never the training.
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
        """Every rank calls it, as it does DistributedDataParallel itself.

        ``reduce`` with ``reduce_state`` is the hook that reduces: `DdpMean` by default.
        CaptureError, on every rank, when nothing can be captured as asked.
        """
        model = _unwrapped(model)
        check_model(model)
        self.step = 0
        self.reduce, self.reduce_state = reduce or DdpMean(model), reduce_state
        group = model.process_group
        chosen = selection or Selection()
        ranks, rank = chosen.workers(dist.get_world_size(group)), dist.get_rank(group)
        names = {id(p): n for n, p in model.module.named_parameters() if p.requires_grad}
        ignored = set(getattr(model, "parameters_to_ignore", ()))
        tensors = chosen.tensors(
            [
                TensorSpec(n, tuple(p.shape), _DTYPES.get(p.dtype, str(p.dtype)))
                for n, p in model.module.named_parameters()
                if p.requires_grad and n not in ignored
            ]
        )
        wanted = {spec.name for spec in tensors}
        for sparse in sorted(wanted & sparse_tensors(model.module)):
            todo = "make the embedding with sparse=False, or leave the layer out"
            raise CaptureError(f"tensor {sparse!r}", "its gradients are sparse", todo)
        self._names = {key: n for key, n in names.items() if n in wanted}
        self._steps = chosen.steps
        self._path, self._tensors = Path(folder), tensors
        check_tensors(self._path, tensors)
        self._lead: CaptureFolder | None = None
        if rank == ranks[0]:
            whose = f"ranks {', '.join(map(str, ranks))} of {dist.get_world_size(group)}"
            self._lead = CaptureFolder(
                self._path,
                name or type(model.module).__name__,
                len(ranks),
                tensors,
                note or f"gradients before reduction, {whose}, torch {torch.__version__}",
                datetime.now(UTC).isoformat(timespec="seconds"),
                modules_of(model.module, wanted),
            )
        _on_lead(self._lead, dist.get_global_rank(group, ranks[0]), group)
        self._worker = ranks.index(rank) if rank in ranks else None
        self._metadata = {"rank": str(rank), "ranks": str(dist.get_world_size(group))}
        self._file: TensorFileWriter | None = None  # of the step under way
        atexit.register(self._at_exit)

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
        if self._lead is not None:
            self._lead.pending.append(self.step - 1)
            self._collect()

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
        if self._lead is not None and self._lead.pending:
            try:
                self._lead.collect()
            except OSError as error:
                _warn(f"steps {self._lead.pending} are not listed yet: {error}")

    def _at_exit(self) -> None:
        """A step that is still to be listed; and a moment for gloo, whose threads abort the process
        when they let go of the last gradients after Python has ended.
        """
        self._collect()
        time.sleep(_GLOO_SECONDS)

    def _try(self, action: Callable[[], None]) -> None:
        """What fails costs the step."""
        try:
            action()
        except (OSError, ValueError) as error:
            self._give_up()
            _warn(f"step {self.step} of worker {self._worker} is not captured: {error}")


def _warn(text: str) -> None:
    say(f"nf capture: {text}", file=sys.stderr, flush=True)


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
    can be captured as asked the script ends with one line and exit code 2.
    """
    folder = env.get(FOLDER, "")
    if not folder:
        return None
    try:
        state = CaptureState(
            model,
            folder,
            Selection.from_environment(env),
            name=name,
            reduce=reduce,
            reduce_state=reduce_state,
        )
        _unwrapped(model).register_comm_hook(state, capture_hook)
    except CaptureError as error:
        _refuse(error)
    # Without this, torch answers a script that registers one by a traceback from every rank.
    _unwrapped(model).register_comm_hook = _refuse_hook
    return state


def _unwrapped(model: Any) -> Any:
    """The model itself where torch.compile has wrapped it."""
    return getattr(model, "_orig_mod", model)


def _refuse(error: CaptureError) -> NoReturn:
    """One line for all ranks."""
    if is_first(str(error)):
        _warn(str(error))
    raise SystemExit(2) from None


def _refuse_hook(state: Any, hook: Any) -> NoReturn:
    _refuse(second_hook(str(getattr(hook, "__name__", hook))))


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


def _on_lead(folder: CaptureFolder | None, lead: int, group: dist.ProcessGroup) -> None:
    """The lead makes the folder; what is wrong with it is raised on every rank."""
    said: list[tuple[str, str, str] | None] = [None]
    if folder is not None:
        try:
            folder.create()
        except CaptureError as error:
            said = [(error.where, error.what, error.todo)]
    dist.broadcast_object_list(said, src=lead, group=group)
    if said[0] is not None:
        raise CaptureError(*said[0])


def _bytes(gradient: torch.Tensor) -> Any:
    """The elements in C order as uint8[n]: a view where the tensor is contiguous and on the CPU."""
    flat = gradient.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy()

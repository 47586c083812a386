# SPDX-License-Identifier: Apache-2.0
"""Backend "pool" of torch.distributed: importing this module registers it; needs torch.

    import neuron_fabric.collectives.torch
    dist.init_process_group("pool")

All ranks of a group are processes of one machine. The group opens a pool (`Pool`) under a name that
its first rank draws and gives to the others through torch's store. Sums are taken in the order of
ranks: equal on all ranks, and from run to run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

from neuron_fabric.collectives.pool import Pool, Work, open_pool
from neuron_fabric.collectives.shared_memory import PoolError

try:
    import torch
    import torch.distributed as dist
    from torch.futures import Future
except ImportError:
    what = "torch is missing"
    raise PoolError(__name__, what, "pip install torch") from None

NAME = "pool"
_OPS = {"SUM": "sum", "AVG": "sum", "MIN": "min", "MAX": "max"}
_SUMMED = (torch.float32, torch.float64, torch.int32, torch.int64)
_WIDENED = (torch.float16, torch.bfloat16)
_BYTES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Types of numpy for types that it lacks, by size of an element."""
_REFUSED = (
    *("alltoall", "alltoall_base", "all_to_all_single", "send", "recv", "recv_anysource"),
    *("allgather_coalesced", "allgather_into_tensor_coalesced", "all_gather_single_coalesced"),
    *("reduce_scatter_tensor_coalesced", "reduce_scatter_single_coalesced"),
)
Do = Callable[[], list[torch.Tensor]]


class PoolWork(dist.Work):  # type: ignore[misc]
    """Call of a group that has ended, or that its thread runs."""

    def __init__(self, work: Work | None, tensors: list[torch.Tensor]) -> None:
        """Wrap a call.

        Args:
            work: The call in the background, or None if it has ended.
            tensors: Its outputs.
        """
        super().__init__()
        self._work, self._tensors = work, tensors

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the call, which has the time-out of its start; raise its PoolError."""
        if self._work is not None:
            self._work.wait()
        return True

    def is_completed(self) -> bool:
        """Return whether the call has ended, well or not."""
        return self._work is None or self._work.done()

    def is_success(self) -> bool:
        """Return whether the call has ended well."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Any:
        """Return the error of a call that has ended, or None."""
        return None if self._work is None else self._work.future.exception()

    def result(self) -> list[torch.Tensor]:
        """Return the outputs."""
        return self._tensors

    def get_future(self) -> Any:
        """Return a future of the outputs. DDP takes an error only from a callback."""
        ended: Any = Future()
        found = ended.then(lambda _: (self.wait(), self._tensors)[1])
        if self._work is None:
            ended.set_result(None)
        else:
            self._work.future.add_done_callback(lambda _: ended.set_result(None))
        return found


class PoolGroup(dist.ProcessGroup):  # type: ignore[misc]
    """Process group over a pool, for CPU tensors.

    Sums and means of float32, float64, int32 and int64 (means of floats alone), minima and maxima.
    float16 and bfloat16 are widened to float32, and rounded once. Data of any type is moved.
    Everything else raises PoolError.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta, name: str) -> None:
        """Open the pool with the other ranks of the group ``name``, through their ``store``."""
        super().__init__(rank, size)
        self._name = name
        self._seconds = timeout.total_seconds()
        self._pool: Pool = open_pool(None, rank, size, store=store, timeout=self._seconds)

    def getBackendName(self) -> str:
        """Return the name of the backend."""
        return NAME

    @property
    def group_name(self) -> str:
        """Return the name of the group, which torch keeps for its own backends only."""
        return self._name

    def allreduce(self, tensors: Sequence[torch.Tensor], opts: Any = None) -> PoolWork:
        """Reduce each tensor in place."""
        ready = [self._summed("all_reduce", one, opts) for one in tensors]

        def do() -> None:
            for dense, join, end in ready:
                self._pool.all_reduce(_array(dense), join, timeout=self._limit(opts))
                end()

        return self._run(do, tensors, opts)

    allreduce_coalesced = allreduce

    def reduce(self, tensors: Sequence[torch.Tensor], opts: Any) -> PoolWork:
        """Reduce a tensor into that of the root."""
        (one,) = tensors
        dense, join, end = self._summed("reduce", one, opts)

        def do() -> None:
            self._pool.reduce(_array(dense), opts.rootRank, join, timeout=self._limit(opts))
            if self.rank() == opts.rootRank:
                end()

        return self._run(do, tensors, opts)

    def broadcast(self, tensors: Sequence[torch.Tensor], opts: Any) -> PoolWork:
        """Copy the root's tensor to every rank."""
        (one,) = tensors
        dense = _dense("broadcast", one)

        def do() -> None:
            self._pool.broadcast(_array(dense), opts.rootRank, timeout=self._limit(opts))
            _copy_back(one, dense)

        return self._run(do, tensors, opts)

    def all_gather_single(
        self, out: torch.Tensor, given: torch.Tensor, opts: Any = None
    ) -> PoolWork:
        """Copy every rank's tensor into one output."""
        part, whole = _dense("all_gather", given), _dense("all_gather", out, given.dtype)

        def do() -> None:
            self._pool.all_gather(_array(whole), _array(part), timeout=self._limit(opts))
            _copy_back(out, whole)

        return self._run(do, [out], opts)

    _allgather_base = all_gather_single

    def allgather(
        self, outs: Sequence[list[torch.Tensor]], given: Sequence[torch.Tensor], opts: Any = None
    ) -> PoolWork:
        """Copy every rank's tensor into a list of outputs."""
        (one,), (parts,) = given, outs
        part, whole = _dense("all_gather", one), _room("all_gather", one, parts, self.size())

        def do() -> None:
            self._pool.all_gather(_array(whole), _array(part), timeout=self._limit(opts))
            _deal(whole, parts)

        return self._run(do, parts, opts)

    def gather(
        self, outs: Sequence[list[torch.Tensor]], given: Sequence[torch.Tensor], opts: Any
    ) -> PoolWork:
        """Copy every rank's tensor into the root's list of outputs."""
        (one,), parts = given, outs[0] if outs else []
        root = opts.rootRank == self.rank()
        part = _dense("gather", one)
        whole = _room("gather", one, parts, self.size()) if root else None

        def do() -> None:
            to = None if whole is None else _array(whole)
            self._pool.gather(to, _array(part), opts.rootRank, timeout=self._limit(opts))
            if whole is not None:
                _deal(whole, parts)

        return self._run(do, parts, opts)

    def scatter(
        self, outs: Sequence[torch.Tensor], given: Sequence[list[torch.Tensor]], opts: Any
    ) -> PoolWork:
        """Copy the root's list of tensors to the ranks."""
        (one,), parts = outs, given[0] if given else []
        root = opts.rootRank == self.rank()
        part, whole = _dense("scatter", one), None
        if root:
            whole = _joined("scatter", one, parts, self.size())

        def do() -> None:
            of = None if whole is None else _array(whole)
            self._pool.scatter(_array(part), of, opts.rootRank, timeout=self._limit(opts))
            _copy_back(one, part)

        return self._run(do, outs, opts)

    def reduce_scatter_single(
        self, out: torch.Tensor, given: torch.Tensor, opts: Any = None
    ) -> PoolWork:
        """Reduce the ranks' tensors; each rank gets its part."""
        dense, join, end = self._summed("reduce_scatter", out, opts)
        whole = _dense("reduce_scatter", given, out.dtype).to(dense.dtype)

        def do() -> None:
            limit = self._limit(opts)
            self._pool.reduce_scatter(_array(dense), _array(whole), join, timeout=limit)
            end()

        return self._run(do, [out], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter(
        self, outs: Sequence[torch.Tensor], given: Sequence[list[torch.Tensor]], opts: Any = None
    ) -> PoolWork:
        """Reduce the ranks' lists of tensors; each rank gets its part."""
        (one,), (parts,) = outs, given
        whole = _joined("reduce_scatter", one, parts, self.size())
        return self.reduce_scatter_single(one, whole, opts)

    def barrier(self, opts: Any = None) -> PoolWork:
        """Wait until all ranks call it."""
        return self._run(lambda: self._pool.barrier(timeout=self._limit(opts)), [], opts)

    def abort(self) -> None:
        """Make all calls of all ranks fail."""
        self._pool.abort("torch has aborted the group")

    def shutdown(self) -> None:
        """Leave the pool."""
        self._pool.close()

    def _run(
        self, do: Callable[[], object], tensors: Sequence[torch.Tensor], opts: Any
    ) -> PoolWork:
        """Run a call here if torch waits for it, else in the pool's thread."""
        background = getattr(opts, "asyncOp", True)
        found = self._pool.in_order(do, background)
        return PoolWork(found if background else None, list(tensors))

    def _limit(self, opts: Any) -> float:
        asked = opts.timeout.total_seconds() if opts is not None else 0
        return asked if asked > 0 else self._seconds

    def _summed(
        self, name: str, one: torch.Tensor, opts: Any
    ) -> tuple[torch.Tensor, str, Callable[[], None]]:
        """Return the tensor to reduce, the operation of the pool, and what writes the result."""
        asked = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        kind = next((kind for kind in _OPS if asked == getattr(dist.ReduceOp, kind)), None)
        mean = kind == "AVG"
        fits = one.dtype in _SUMMED or one.dtype in _WIDENED
        if kind is None or not fits or (mean and not one.dtype.is_floating_point):
            what = f"{kind or _name_of(asked)} of {one.dtype} is not supported"
            types = "float16, bfloat16, float32, float64, int32 and int64"
            raise PoolError(name, what, f"use SUM, MIN or MAX of {types}, or AVG of floats")
        dense = _dense(name, one)
        if one.dtype in _WIDENED:
            dense = dense.float()

        def end() -> None:
            if mean:
                dense.div_(self.size())
            _copy_back(one, dense)

        return dense, _OPS[kind], end


def _refuse(name: str) -> Callable[..., Any]:
    def refused(*_: object, **__: object) -> Any:
        raise PoolError(
            name, 'the backend "pool" does not have it', 'use the backend "gloo" for it'
        )

    refused.__doc__ = "Raise PoolError."
    return refused


for _name in _REFUSED:
    setattr(PoolGroup, _name, _refuse(_name))


def _name_of(op: Any) -> str:
    """Return the name of an operation that is none of `_OPS`."""
    kinds = dist.ReduceOp.RedOpType.__members__
    return next((name for name, kind in kinds.items() if op == kind), "this operation")


def _dense(name: str, one: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return the tensor, or a contiguous copy; ``dtype`` is that of the call's other tensor."""
    if one.device.type != "cpu" or one.layout != torch.strided:
        what = f"a tensor is {one.layout} on {one.device}".replace("torch.", "")
        raise PoolError(name, what, "use dense CPU tensors, or another backend")
    if dtype not in (None, one.dtype):
        raise PoolError(name, f"tensors of {dtype} and {one.dtype}", "give tensors of one type")
    return one.detach().resolve_conj().resolve_neg().contiguous()


def _array(dense: torch.Tensor) -> Any:
    """Return the memory of a contiguous tensor as an array."""
    flat = dense.view(-1)
    if flat.dtype in (torch.bfloat16, torch.complex32) or flat.dtype.itemsize == 1:
        flat = flat.view(_BYTES[flat.dtype.itemsize])
    return flat.numpy()


def _copy_back(one: torch.Tensor, dense: torch.Tensor) -> None:
    if dense.data_ptr() != one.data_ptr():
        one.detach().copy_(dense)


def _check_parts(name: str, one: torch.Tensor, parts: Sequence[torch.Tensor], size: int) -> None:
    if len(parts) != size or any(
        part.numel() != one.numel() or part.dtype != one.dtype for part in parts
    ):
        found = ", ".join(f"{part.numel()} x {part.dtype}" for part in parts)
        what = f"a list of [{found}] for {one.numel()} x {one.dtype} and {size} ranks"
        raise PoolError(name, what, "give one tensor of that size and type for each rank")


def _room(name: str, one: torch.Tensor, parts: Sequence[torch.Tensor], size: int) -> torch.Tensor:
    """Return memory for the tensors of all ranks."""
    _check_parts(name, one, parts, size)
    return torch.empty(size * one.numel(), dtype=one.dtype)


def _joined(name: str, one: torch.Tensor, parts: Sequence[torch.Tensor], size: int) -> torch.Tensor:
    """Return a list of tensors as one."""
    _check_parts(name, one, parts, size)
    return torch.cat([_dense(name, part).reshape(-1) for part in parts])


def _deal(whole: torch.Tensor, parts: Iterable[torch.Tensor]) -> None:
    for part, found in zip(parts, whole.chunk(len(list(parts))), strict=True):
        part.detach().copy_(found.view(part.shape))


def _create(asked: Any, _: object) -> PoolGroup:
    return PoolGroup(
        asked.store, asked.group_rank, asked.group_size, asked.timeout, str(asked.group_id)
    )


if not hasattr(dist.Backend, NAME.upper()):
    dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu"])

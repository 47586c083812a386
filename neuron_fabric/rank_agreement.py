# SPDX-License-Identifier: Apache-2.0
"""Agreement between the ranks of a job, and one line for all of them; needs torch."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed as dist

from neuron_fabric.errors import InputError, LineError

Result = TypeVar("Result")
LATE_S = 300.0
"""A rank that has not asked after this time does not ask."""
_ASKED: Counter[str] = Counter()
"""Calls of `silent_rank` of this process, by their key without a number. They are counted over all
process groups: torch numbers groups anew after `destroy_process_group`, and the store of torchrun
still has the answers of the groups before."""


def is_first(text: str, group: Any = None) -> bool:
    """Return whether this rank is the first of ``group`` (None: the world) to report ``text``.

    A launcher that sees one rank fail ends the others, which may not have reached the error, so the
    first need not be rank 0. Without a process group the result is True.
    """
    if not dist.is_initialized():
        return True
    try:
        count: int = _store().add(_key(text), 1)
    except (AttributeError, RuntimeError):  # of torch's inner parts, or its keeper has ended
        return bool(dist.get_rank() == 0)
    return (count - 1) % int(dist.get_world_size(group)) == 0


def set_reported(text: str) -> None:
    """Tell the other ranks that ``text`` is printed, after `is_first` has returned True.

    Raises:
        RuntimeError: The process that keeps the store has ended.
    """
    _store().set(f"{_key(text)}/reported", "")


def wait_reported(text: str, limit_s: float) -> None:
    """Wait until the first rank has called `set_reported` for ``text``, for ``limit_s`` at most.

    Raises:
        RuntimeError: The time is over, or the process that keeps the store has ended.
    """
    _store().wait([f"{_key(text)}/reported"], timedelta(seconds=limit_s))


def together(do: Callable[[], Result], group: Any) -> Result:
    """Run ``do`` on every rank; return its result, or raise one LineError on all ranks.

    It is the error of the first rank that has one. Collective: every rank of ``group`` must call
    it.
    """
    result, error = None, None
    try:
        result = do()
    except LineError as found:
        error = found
    every: list[LineError | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(every, error, group=group)
    for rank, one in enumerate(every):
        if one is None:
            continue
        if len({str(one) for one in every}) == 1:
            raise one
        if isinstance(one, InputError):
            raise type(one)(f"rank {rank}: {one.where}", one.what, one.todo)
        raise LineError(f"rank {rank}: {one}")
    return result  # type: ignore[return-value]


def other_rank(value: str, group: Any) -> int | None:
    """Return the first rank whose ``value`` differs from rank 0's, or None.

    Collective: every rank of ``group`` must call it.
    """
    every: list[str] = [""] * dist.get_world_size(group)
    dist.all_gather_object(every, value, group=group)
    return next((rank for rank, one in enumerate(every) if one != every[0]), None)


def silent_rank(what: str, asked: bool, group: Any) -> str:
    """Publish whether this rank has ``asked`` for ``what``, and check that all others have too.

    An environment variable may be set on some machines only, and a collective without all ranks
    would hang. A rank that has not asked does not wait.

    Returns:
        A text about the first rank that has not asked, or not called within LATE_S seconds; "" if
        all have, or if this rank has not asked.
    """
    size, rank = dist.get_world_size(group), dist.get_rank(group)
    if size == 1:
        return ""
    ranks = dist.get_process_group_ranks(group)
    key = _key(f"{what} of {ranks} in group {group.group_name}")
    _ASKED[key] += 1
    key, store = f"{key}/{_ASKED[key]}", _store()
    store.set(f"{key}/{rank}", str(int(asked)))
    for other in range(size if asked else 0):
        try:
            store.wait([f"{key}/{other}"], timedelta(seconds=LATE_S))
        except RuntimeError:
            return f"rank {other} has not called attach in {LATE_S:g} s"
        if store.get(f"{key}/{other}") == b"0":
            return f"rank {other} has no {what}"
    return ""


def _key(text: str) -> str:
    return f"neuron_fabric/{hashlib.sha256(text.encode()).hexdigest()}"


def _store() -> Any:
    return dist.distributed_c10d._get_default_store()

# SPDX-License-Identifier: Apache-2.0
"""Meeting of the ranks of a pool in a store: one path for all, and all on one machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from neuron_fabric.collectives.shared_memory import PoolError

FOLDER = Path("/dev/shm")
_KEY = "pool"


class Store(Protocol):
    """Keys and values that all ranks see: the methods of a `torch.distributed.Store` in use."""

    def set(self, key: str, value: str, /) -> Any:
        """Set a value."""

    def get(self, key: str, /) -> bytes:
        """Return a value."""

    def add(self, key: str, number: int, /) -> int:
        """Add to a number, 0 at first, and return the sum."""

    def wait(self, keys: Sequence[str], limit: timedelta, /) -> Any:
        """Wait until all keys are set; raise RuntimeError or TimeoutError after ``limit``."""


def meet(store: Store, rank: int, world: int, path: Path | None, timeout_s: float) -> Path:
    """Exchange the path of a pool with the other ranks.

    Args:
        store: Store of all ranks.
        rank: This rank.
        world: Number of ranks.
        path: The path, the same on all ranks; None: rank 0 draws a name in /dev/shm.
        timeout_s: Seconds to wait for another rank.

    Returns:
        The path.

    Raises:
        PoolError: A rank does not come, has another path, or does not share this memory.
    """
    # A job that opens pools again has the keys of those before in the store.
    place = f"{_KEY}/{(store.add(_KEY, 1) - 1) // world}"
    where, folder = f"pool {path or ''}".strip(), path.parent if path else FOLDER
    boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    try:
        here = f"{boot} {folder.stat().st_dev}"
    except OSError as error:
        here = f"{error.strerror}: {folder}"  # `SharedMemory` refuses it
    store.set(f"{place}/{rank}", "\n".join((here, os.uname().nodename, str(path or ""))))
    if rank == 0:
        store.set(place, str(path or FOLDER / f"neuron-fabric-{os.urandom(8).hex()}"))
    for other in range(world):
        try:
            store.wait([f"{place}/{other}", place], timedelta(seconds=timeout_s))
        except (RuntimeError, TimeoutError):
            what = f"rank {other} has not come to the store within {timeout_s:g} s"
            raise PoolError(where, what, f"start {world} ranks") from None
        there, name, its = store.get(f"{place}/{other}").decode().split("\n", 2)
        if there != here:
            what = f"rank {other} ({name}) does not share {folder} with rank {rank}"
            raise PoolError(where, what, "run all ranks on one machine, or use gloo")
        if its != str(path or ""):
            what = f"rank {other} opens {its or 'a drawn name'}"
            raise PoolError(where, what, "open one path on all ranks")
    return Path(store.get(place).decode())

# SPDX-License-Identifier: Apache-2.0
"""Session of a training that a framework runs, and its files in checkpoints; needs torch.

A checkpoint has a file for each rank, because residuals belong to the gradients of a rank.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from neuron_fabric.errors import AttachError, LineError
from neuron_fabric.hook.attach_checks import end
from neuron_fabric.hook.attachment import attach
from neuron_fabric.hook.training_session import TrainingSession
from neuron_fabric.output import write_bytes
from neuron_fabric.profile import Profile
from neuron_fabric.rank_agreement import together
from neuron_fabric.wrapped import ddp_model

FORMAT = "neuron-fabric-rank"
TODO = "resume from a complete checkpoint of a training with neuron_fabric, or from its weights"
State = Mapping[str, Any]


class RankSession:
    """Session of this rank; without a profile there is none, and every method does nothing."""

    def __init__(self, profile: str | os.PathLike[str] | Profile | None, options: State) -> None:
        """Keep the arguments of `attach`; ``options`` precede what the framework knows."""
        self._profile, self._options, self._group = profile, options, None
        self.session: TrainingSession | None = None

    def start(self, model: Any, **found: Any) -> None:
        """Attach the profile to a DDP model, with the options ``found`` in the framework."""
        words = {**found, **self._options}
        words["optimizer"] = getattr(words["optimizer"], "optimizer", words["optimizer"])
        self.session = attach(model, self._profile, **words)
        self._group = getattr(ddp_model(model), "process_group", None)

    def observe(self, loss: Any) -> None:
        """Observe the loss of a step; None is ignored."""
        if self.session is not None and loss is not None:
            self.session.observe(loss)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the file of this rank whole or not at all. Raises OSError."""
        if self.session is not None:
            state, buffer = self.session.state_dict(), io.BytesIO()
            torch.save({"format": FORMAT, "state": state}, buffer)
            Path(folder).mkdir(parents=True, exist_ok=True)
            write_bytes(_file_of(folder, state["rank"]), buffer.getvalue(), durable=True)

    def states(self) -> list[State] | None:
        """Return the states of all ranks on rank 0, None on the others. Collective."""
        if self.session is None:
            return None
        first = dist.get_rank(self._group) == 0
        every: list[Any] | None = [None] * dist.get_world_size(self._group) if first else None
        dist.gather_object(self.session.state_dict(), every, group=self._group, group_dst=0)
        return every

    def restore(self, read: Callable[[int, int], State]) -> None:
        """Load the state that ``read(rank, world size)`` returns. Collective.

        Raises:
            SystemExit: With code 2 on every rank, after one line, if a rank cannot read its state.
        """
        if (session := self.session) is None:
            return
        rank, world = dist.get_rank(self._group), dist.get_world_size(self._group)
        try:
            together(lambda: session.load_state_dict(read(rank, world)), self._group)
        except LineError as error:
            end(error, self._group)

    def close(self) -> None:
        """Close the session after the last backward."""
        if self.session is not None:
            self.session.close()


def read_rank(folder: str | os.PathLike[str], rank: int, world: int) -> State:
    """Return the state of a rank from a checkpoint.

    A rank that the checkpoint lacks, because fewer ranks wrote it, gets the state of rank 0, of
    which `load_state_dict` drops the residuals.

    Raises:
        AttachError: The file is missing, or something else.
    """
    path = _file_of(folder, rank)
    file = path if path.exists() else _file_of(folder, 0)
    try:
        values = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise AttachError(path, "is missing", TODO) from None
    except Exception:  # torch raises what its unpickler happens to meet in a foreign file
        values = None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise AttachError(file, "is no state of neuron_fabric", TODO)
    state: State = values["state"]
    if file != path and state["world"] == world:
        raise AttachError(path, "is missing", TODO)
    return state


def _file_of(folder: str | os.PathLike[str], rank: int) -> Path:
    return Path(folder, f"{FORMAT}-{rank}.pt")

# SPDX-License-Identifier: Apache-2.0
"""Callback for the Trainer of Lightning; needs lightning."""

from __future__ import annotations

import math
import os
from typing import Any

from lightning.pytorch import Callback

from neuron_fabric.errors import AttachError
from neuron_fabric.integrations.rank_session import TODO, RankSession, State
from neuron_fabric.profile import Profile

KEY = "neuron_fabric"
"""Key of the states of all ranks in a checkpoint."""


class LightningCallback(Callback):
    """Attaches a profile when training starts; its state is in the checkpoints of Lightning.

    Rank 0 writes the checkpoint, so that it gathers the states of all ranks in its memory.
    """

    def __init__(
        self, profile: str | os.PathLike[str] | Profile | None = None, **options: Any
    ) -> None:
        """Create the callback with the profile and the options of `attach`."""
        self.fabric = RankSession(profile, options)
        self._loaded: dict[str, Any] | None = None

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """Keep the states of a checkpoint until the model is wrapped."""
        self._loaded = {KEY: checkpoint.get(KEY)}

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Attach the profile to the DDP model, and restore the state in a resumed training."""
        steps = trainer.estimated_stepping_batches
        self.fabric.start(
            trainer.strategy.model,
            optimizer=trainer.optimizers[0] if len(trainer.optimizers) == 1 else None,
            scaler=getattr(trainer.precision_plugin, "scaler", None) or False,
            accumulation=trainer.accumulate_grad_batches,
            clipping=bool(trainer.gradient_clip_val),
            steps=int(steps) if 0 < steps < math.inf else None,
        )
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            self.fabric.restore(lambda rank, world: _of_rank(loaded[KEY], rank))

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Observe the loss that ``training_step`` returned."""
        self.fabric.observe(outputs.get("loss") if isinstance(outputs, dict) else outputs)

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        """Put the states of all ranks into the checkpoint, which rank 0 writes."""
        if states := self.fabric.states():
            checkpoint[KEY] = states

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Close the session after the fit."""
        self.fabric.close()


def _of_rank(states: Any, rank: int) -> State:
    """Return the state of a rank; the one of rank 0 if fewer ranks wrote the checkpoint."""
    if not isinstance(states, list):
        raise AttachError("checkpoint", "it has no states of neuron_fabric", TODO)
    state: State = states[rank if rank < len(states) else 0]
    return state

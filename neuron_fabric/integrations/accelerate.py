# SPDX-License-Identifier: Apache-2.0
"""Object for trainings with Accelerate; needs accelerate."""

from __future__ import annotations

import os
from typing import Any

from neuron_fabric.integrations.rank_session import RankSession, read_rank
from neuron_fabric.profile import Profile


class NeuronFabric:
    """Attaches a profile to a prepared model; ``save_state`` and ``load_state`` have its state."""

    def __init__(
        self,
        accelerator: Any,
        model: Any,
        profile: str | os.PathLike[str] | Profile | None = None,
        **options: Any,
    ) -> None:
        """Attach the profile after ``accelerator.prepare``, before ``accelerator.load_state``.

        Args:
            accelerator: Accelerator.
            model: DDP model that ``prepare`` returned.
            profile: Profile of `attach`.
            **options: Options of `attach`, such as ``optimizer``.
        """
        self._accelerator = accelerator
        self.fabric = RankSession(profile, options)
        self.fabric.start(
            model,
            optimizer=None,
            scaler=accelerator.scaler or False,
            accumulation=accelerator.gradient_accumulation_steps,
        )
        accelerator.register_save_state_pre_hook(self._save)
        accelerator.register_load_state_pre_hook(self._load)

    def backward(self, loss: Any) -> None:
        """Call ``accelerator.backward(loss)``, and observe the loss."""
        self._accelerator.backward(loss)
        self.fabric.observe(loss)

    def close(self) -> None:
        """Close the session after the last backward, on every rank."""
        self.fabric.close()

    def _save(self, models: Any, weights: Any, folder: str) -> None:
        self.fabric.save(folder)

    def _load(self, models: Any, folder: str) -> None:
        self.fabric.restore(lambda rank, world: read_rank(folder, rank, world))

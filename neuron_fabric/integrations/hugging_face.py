# SPDX-License-Identifier: Apache-2.0
"""Callback for the Trainer of Hugging Face; needs transformers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from transformers import Trainer, TrainerCallback, TrainerState
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from neuron_fabric.errors import AttachError
from neuron_fabric.integrations.rank_session import RankSession, State, read_rank
from neuron_fabric.profile import Profile


class HuggingFaceCallback(TrainerCallback):
    """Attaches a profile when training begins; its state is in the checkpoints of Trainer.

    The loss is observed when Trainer logs it, so that ``logging_steps=1`` gives the monitor every
    step.
    """

    def __init__(
        self,
        trainer: Trainer,
        profile: str | os.PathLike[str] | Profile | None = None,
        *,
        resume_from: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        """Create the callback, for ``trainer.add_callback``.

        Args:
            trainer: Trainer, which has the DDP model; callbacks do not get it.
            profile: Profile of `attach`.
            resume_from: Folder of the checkpoint that the training resumes from; by default it is
                the one of its step in the output folder.
            **options: Options of `attach`.
        """
        self._trainer, self._resume_from = trainer, resume_from
        self.fabric = RankSession(profile, options)

    def on_train_begin(self, args: Any, state: Any, control: Any, **words: Any) -> None:
        """Attach the profile to the DDP model, and restore the state in a resumed training."""
        self.fabric.start(
            self._trainer.model_wrapped,
            optimizer=words["optimizer"],
            scaler=getattr(self._trainer.accelerator, "scaler", None) or False,
            accumulation=args.gradient_accumulation_steps,
            clipping=args.max_grad_norm > 0,
            steps=state.max_steps,
        )
        if state.global_step:
            folder = Path(self._resume_from or self._folder(args, state))
            self.fabric.restore(lambda rank, world: _read(folder, state, rank, world))

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **words: Any) -> None:
        """Observe the loss that Trainer logs: a mean over ranks and the steps since the last."""
        self.fabric.observe((logs or {}).get("loss"))

    def on_save(self, args: Any, state: Any, control: Any, **words: Any) -> None:
        """Write the file of this rank into the checkpoint."""
        if not args.save_only_model:
            self.fabric.save(self._folder(args, state))

    def on_train_end(self, args: Any, state: Any, control: Any, **words: Any) -> None:
        """Close the session."""
        self.fabric.close()

    def _folder(self, args: Any, state: Any) -> Path:
        return Path(args.output_dir, f"{PREFIX_CHECKPOINT_DIR}-{state.global_step}")


def _read(folder: Path, state: TrainerState, rank: int, world: int) -> State:
    """Return the state of a rank from ``folder``, which must be the checkpoint of ``state``."""
    found = read_rank(folder, rank, world)
    kept = TrainerState.load_from_json(str(folder / "trainer_state.json"))
    if (kept.global_step, kept.log_history) != (state.global_step, state.log_history):
        what = "is not the checkpoint from which Trainer resumes"
        raise AttachError(folder, what, "give HuggingFaceCallback its folder as resume_from")
    return found

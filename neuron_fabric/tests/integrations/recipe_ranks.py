# SPDX-License-Identifier: Apache-2.0
"""Ranks that run a recipe of the README with a small random model, in the current folder.

Arguments: name of the integration; then for each training its epochs, the folder for the weights,
and the checkpoint to resume from ("-" for none). The processes of each training are forked from
this one, which has imported the framework.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from multiprocessing import connection
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from neuron_fabric.codec import Route
from neuron_fabric.hook.training_session import TrainingSession
from neuron_fabric.launcher import meeting_point
from neuron_fabric.profile import PhaseRoute, write_profile
from neuron_fabric.profile.draft_profile import draft, with_routes
from neuron_fabric.profile.model_sketch import sketch
from neuron_fabric.profile.profile_types import Kind, Phases, Warmup
from neuron_fabric.wrapped import bare_model

README = Path(__file__).parents[2] / "README.md"
LIBRARIES = {"hugging_face": "transformers", "lightning": "lightning", "accelerate": "accelerate"}
WORLD, STEPS, BATCH = 3, 4, 4
"""Ranks, steps of an epoch, examples of a step on a rank."""
FORGOTTEN = "forgotten"
"""Folder of the weights of a training that drops the residuals of its checkpoint."""


def recipe(name: str) -> str:
    """Return the Python block of the README that imports the integration ``name``."""
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    (found,) = (one for one in blocks if f"neuron_fabric.integrations.{name} " in one)
    return str(found)


def main(name: str, *words: str) -> None:
    """Run trainings one after the other, each in new processes; exit with 1 after a failure."""
    exec("\n".join(line for line in recipe(name).splitlines() if line.startswith("from ")), {})
    fork = multiprocessing.get_context("fork")
    for training in range(0, len(words), 3):
        os.environ.update(meeting_point())
        ranks = [
            fork.Process(
                target=_rank, args=(rank, name, *words[training : training + 3]), daemon=True
            )
            for rank in range(WORLD)
        ]
        for one in ranks:
            one.start()
        while alive := [one.sentinel for one in ranks if one.is_alive()]:
            connection.wait(alive)
            for one in ranks:
                if one.exitcode:
                    raise SystemExit(one.exitcode)  # the others end with this process


def _rank(rank: int, name: str, epochs: str, folder: str, resume: str) -> None:
    """Run a recipe, and save the weights of this rank."""
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(WORLD)})
    os.environ.update({"LOCAL_WORLD_SIZE": str(WORLD), "ACCELERATE_USE_CPU": "true"})
    torch.manual_seed(1)
    if folder == FORGOTTEN:
        _forget()
    values = _hugging_face() if name == "hugging_face" else _perceptron(name)
    if rank == 0:
        _write_profile(values["model"])
    resumed = resume != "-"
    values |= {"resume": resume if resumed else None, "epochs": int(epochs)}
    values |= {"first_epoch": int(resumed)}
    exec(compile(recipe(name), name, "exec"), values)
    Path(folder).mkdir(exist_ok=True)
    torch.save(bare_model(values["model"]).state_dict(), f"{folder}/{rank}.pt")


def _write_profile(model: nn.Module) -> None:
    how = PhaseRoute(Route.G_BINARY, "net", feedback=True)
    low = (Kind.LINEAR, Kind.ATTENTION)
    made = with_routes(draft("p", sketch(model)), lambda one: how if one.kind in low else None)
    write_profile(replace(made, verified=True, phases=Phases(Warmup(1))), "profile.toml")


def _forget() -> None:
    load = TrainingSession.load_state_dict

    def without(self: TrainingSession, values: Mapping[str, Any]) -> None:
        assert values["residuals"]
        load(self, {**values, "residuals": {}})

    patch.object(TrainingSession, "load_state_dict", without).start()


def _hugging_face() -> dict[str, Any]:
    from transformers import GPT2Config, GPT2LMHeadModel

    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
    )
    tokens = torch.randint(64, (WORLD * STEPS * 8, 16))  # Trainer's batch is 8
    return {"model": model, "data": [{"input_ids": one, "labels": one} for one in tokens]}


def _perceptron(name: str) -> dict[str, Any]:
    net = nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4)
    )
    count = WORLD * STEPS * BATCH
    data = TensorDataset(torch.randn(count, 32), torch.randint(4, (count,)))
    values: dict[str, Any] = {"model": net, "loader": DataLoader(data, BATCH, shuffle=True)}
    if name == "accelerate":
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        return {**values, "optimizer": optimizer, "cross_entropy": nn.functional.cross_entropy}
    from lightning import LightningModule

    class Lit(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def training_step(self, batch: Any, index: int) -> Any:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), 0.01)

    return {**values, "model": Lit(), "devices": WORLD}


if __name__ == "__main__":
    main(*sys.argv[1:])

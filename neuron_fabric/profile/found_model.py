# SPDX-License-Identifier: Apache-2.0
"""Extraction of the model from a training script, without running the training; needs torch."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from neuron_fabric.errors import ProfileError


class _Found(BaseException):
    """Raised when a script wraps its model, to end the script; ``model`` is the model.

    It is no Exception, so that the script cannot catch it.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model


def model_of_script(words: Sequence[str], workers: int) -> Any:
    """Run a script until it passes its model to DistributedDataParallel; return the model.

    The script runs as rank 0 of a group without other processes, which reduces nothing.

    Args:
        words: Path of the script and its arguments.
        workers: World size that the script sees.

    Raises:
        ProfileError: The script fails, or ends before it wraps a model.
    """
    script = Path(words[0])
    path = [str(script.resolve().parent), *sys.path]
    if not script.is_file():
        raise ProfileError(script, "there is no such script", "give a file of Python")
    try:
        with (
            _alone(workers),
            mock.patch.object(sys, "argv", list(words)),
            mock.patch.object(sys, "path", path),
        ):
            runpy.run_path(str(script), run_name="__main__")
    except _Found as found:
        return found.model
    except SystemExit as end:
        what = f"has ended with code {end.code} before it wrapped a model"
        raise ProfileError(script, what, "give the arguments with which it trains") from None
    except Exception as error:
        what = f"has failed ({type(error).__name__}: {error})"
        raise ProfileError(script, what, "give the arguments with which it trains") from error
    what = "has wrapped no model in DistributedDataParallel"
    raise ProfileError(script, what, "give the script that trains")


def model_of_name(name: str) -> Any:
    """Call the function ``MODULE:FUNCTION`` on the meta device and return the model that it makes.

    That device allocates no memory and needs no GPU.

    Raises:
        ProfileError: The function fails or returns no torch.nn.Module.
    """
    import torch

    module, _, function = name.partition(":")
    try:
        with mock.patch.object(sys, "path", [os.getcwd(), *sys.path]):
            make = pkgutil.resolve_name(f"{module}:{function}")
        with torch.device("meta"):
            made = make()
        if not isinstance(made, torch.nn.Module):
            raise TypeError(f"{type(made).__name__} is no torch.nn.Module")
        return made
    except Exception as error:
        what = f"gives no model ({type(error).__name__}: {error})"
        raise ProfileError(name, what, "give MODULE:FUNCTION, without arguments") from error


@contextlib.contextmanager
def _alone(workers: int) -> Iterator[None]:
    """Patch torch so that a script runs as rank 0 without other ranks.

    Torch's fake process group reduces nothing; DistributedDataParallel raises `_Found`.
    """
    import torch.distributed as dist
    import torch.multiprocessing as processes
    from torch.nn.parallel import DistributedDataParallel
    from torch.testing._internal.distributed.fake_pg import FakeStore

    start = dist.init_process_group

    def begin(*_: Any, **words: Any) -> None:
        world = max(workers, int(words.get("world_size", -1)))
        start("fake", store=FakeStore(), rank=0, world_size=world)

    def wrap(_: Any, module: Any, *__: Any, **___: Any) -> None:
        raise _Found(module)

    def spawn(function: Any, args: Any = (), *_: Any, **__: Any) -> None:
        function(0, *args)

    rank = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": str(workers), "LOCAL_WORLD_SIZE": "1"}
    address = {"MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    with (
        mock.patch.dict(os.environ, {**rank, **address}),
        mock.patch.object(dist, "init_process_group", begin),
        mock.patch.object(processes, "spawn", spawn),
        mock.patch.object(DistributedDataParallel, "__init__", wrap),
    ):
        try:
            yield
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()

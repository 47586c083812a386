# SPDX-License-Identifier: Apache-2.0
"""Processes (workers, ranks of a training) that do not outlive the process that started them.

`neuron_fabric.launcher` starts them. Signals that would end this process end the workers first,
and the orphan guard (`scripts.common.orphan_guard`) ends them after a SIGKILL of this process.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuron_fabric import launcher
from neuron_fabric.data import read_object
from scripts.common import interrupt, orphan_guard
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.ranks.node_network import Nodes

RESULT = "result.json"
"""File in which rank 0 leaves the result of a measurement."""


def need_torch(command: str) -> None:
    """Raise NfError, which begins with the name of the command, unless torch is installed."""
    if importlib.util.find_spec("torch") is None:
        raise NfError(f"{command}: torch is not installed (requirements-torch.txt).")


def run_workers(
    command: Sequence[str], workers: int, env: Mapping[str, str] = os.environ
) -> str | None:
    """Run one command in every worker process, guarded; see `neuron_fabric.launcher`."""
    # After the folder of the script, so that neuron_fabric is found where nothing is installed.
    path = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), str(ROOT)]))
    with _ended_by_signals():
        env = {**env, "PYTHONPATH": path}
        return launcher.run_workers(command, workers, env, orphan_guard.watch)


def rank_run(
    nodes: Nodes, module: str, words: Sequence[str], env: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Run one module as every rank of a measurement, and return the result of rank 0.

    Args:
        nodes: Nodes of the ranks, with the command prefix of each.
        module: Module, called with a folder and ``words``; rank, number of ranks and meeting point
            are in the variables of `init_process_group`.
        words: Further arguments.
        env: Further environment variables.

    Returns:
        The object in the file RESULT of the folder, which rank 0 writes.

    Raises:
        NfError: A rank has failed; with its last line of output.
    """
    count = len(nodes.prefix)
    with tempfile.TemporaryDirectory(prefix="nf-ranks-") as folder, _ended_by_signals():
        run = [sys.executable, "-m", module, folder, *words]
        commands = [[*prefix, *run] for prefix in nodes.prefix]
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        own = {**os.environ, **launcher.meeting_point(nodes.address), "PYTHONPATH": path}
        own |= {**nodes.env, **(env or {})}
        failed = launcher.run_ranks(commands, own, orphan_guard.watch, Path(folder))
        if failed is not None:
            bad, _ = failed
            text = Path(folder, f"log-{bad}").read_text(encoding="utf-8", errors="replace")
            said = [line for line in text.splitlines() if line.strip()] or ["no message"]
            raise NfError(f"{module}: rank {bad} of {count} has failed: {said[-1]}.")
        return read_object(Path(folder, RESULT))


def _ended_by_signals() -> Any:
    return interrupt.handling(lambda number: sys.exit(128 + number), signal.SIGTERM, signal.SIGHUP)

# SPDX-License-Identifier: Apache-2.0
"""Workers of a data-parallel training on this machine, started and watched by torchrun's agent.

The agent gives each worker RANK, WORLD_SIZE, MASTER_ADDR and the rest that `init_process_group`
reads, and ends all when one fails. It runs in a separate process, between this one and the
workers. Both have an orphan guard (`scripts.common.orphan_guard`): a death, even by SIGKILL, ends
the processes below it.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.common import orphan_guard, process
from scripts.common.errors import NfError
from scripts.common.paths import ROOT

GRACE_SECONDS = 5
_HERE = "127.0.0.1"
_POLL_SECONDS = 0.05
_FAILED = "failed"
# The project first: a folder of the script's own may be called `scripts`.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from scripts.run import torchrun;"
    "torchrun.main()"
)


def run_workers(
    command: Sequence[str], workers: int, env: Mapping[str, str] = os.environ
) -> str | None:
    """Run ``command`` in every worker until all have ended.

    It needs torch.

    Returns:
        None when all ended with 0, otherwise one line about the first failure.

    Raises:
        NfError: the agent itself failed, and the workers with it.
    """
    with (
        tempfile.TemporaryDirectory(prefix="nf-torchrun-") as folder,
        # Signals that would end this process at once end the agent before.
        process.handling(lambda number: sys.exit(128 + number), signal.SIGTERM, signal.SIGHUP),
    ):
        agent = subprocess.Popen(
            [
                *(sys.executable, "-P", "-c", _PROGRAM, str(ROOT)),
                *(str(os.getpid()), folder, str(workers), str(GRACE_SECONDS), *command),
            ],
            env={"OMP_NUM_THREADS": "1", **env},  # so many workers share the cores
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        orphan_guard.watch(agent.pid)
        try:
            agent.wait()
        finally:
            agent.terminate()  # it gives the workers time to be kind
            agent.wait()
            orphan_guard.forget(agent.pid)
        failed = Path(folder, _FAILED)
        if failed.is_file():
            return failed.read_text(encoding="utf-8")
    if agent.returncode:
        raise NfError(
            f"torchrun's agent (process {agent.pid}) has ended with code {agent.returncode}, and "
            "with it the workers."
        )
    return None


def main() -> None:
    """Run the agent's process: `PARENT FOLDER WORKERS GRACE COMMAND`."""
    parent, folder, workers, grace, *command = sys.argv[1:]
    logging.disable(logging.CRITICAL)  # of a failure torch makes a table; here it is one line
    from torch.distributed.elastic.multiprocessing.api import SignalException

    if os.getppid() != int(parent):  # it died before its orphan guard knew of this process
        sys.exit(1)
    try:
        failures = _run(Path(folder), int(workers), int(grace), command)
    except SignalException as ended:
        sys.exit(128 + ended.sigval)
    if failures:
        rank = min(failures, key=lambda rank: failures[rank].timestamp)
        code = failures[rank].exitcode
        how = f"ended with code {code}" if code >= 0 else f"was ended by signal {-code}"
        Path(folder, _FAILED).write_text(f"worker {rank} {how}", encoding="utf-8")


def _run(folder: Path, workers: int, grace: int, command: Sequence[str]) -> dict[int, Any]:
    """Start the workers and wait for them; return those that failed, by rank."""
    from torch.distributed.elastic.agent.server import WorkerSpec
    from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.elastic.rendezvous import RendezvousParameters
    from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler

    class Agent(LocalElasticAgent):  # type: ignore[misc]
        def _start_workers(self, group: Any) -> dict[int, Any]:
            pids: dict[int, Any] = super()._start_workers(group)
            for pid in pids.values():
                orphan_guard.watch(pid)
            context = self._pcontext
            close = context.close  # half a minute, whatever shutdown_timeout says
            context.close = lambda number=None, timeout=0: close(number, grace)
            return pids

    where = RendezvousParameters("c10d", f"{_HERE}:0", "nf", 1, 1, local_addr=_HERE)
    work = WorkerSpec(
        role="worker",
        local_world_size=workers,
        entrypoint=command[0],
        args=tuple(word.replace("$", "$$") for word in command[1:]),  # it replaces ${local_rank}
        rdzv_handler=get_rendezvous_handler(where),
        max_restarts=0,
        monitor_interval=_POLL_SECONDS,
        local_addr=_HERE,
    )
    agent = Agent(work, DefaultLogsSpecs(str(folder)), shutdown_timeout=grace)
    failures: dict[int, Any] = agent.run().failures
    return failures

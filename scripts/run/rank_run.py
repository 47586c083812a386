# SPDX-License-Identifier: Apache-2.0
"""Launcher of one module as every rank of a measurement; returns the result of rank 0."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neuron_fabric.data import read_object
from scripts.common import process
from scripts.common.errors import NfError
from scripts.common.paths import ROOT
from scripts.run.node_network import Nodes


def rank_run(
    nodes: Nodes, module: str, words: Sequence[str], left: str, env: Mapping[str, str] | None = None
) -> Mapping[str, Any]:
    """Run the module as all ranks, and return the object of the file ``left``.

    ``words`` follow folder, rank, world and master on the command line. NfError with the last
    line of the first rank that failed.
    """
    count = len(nodes.prefix)
    with tempfile.TemporaryDirectory(prefix="nf-ranks-") as folder:
        started = []
        own = {**os.environ, **nodes.env, "OMP_NUM_THREADS": "1", **(env or {})}
        for rank, prefix in enumerate(nodes.prefix):
            command = [*prefix, sys.executable, "-m", module, folder, str(rank), str(count)]
            with Path(folder, f"log-{rank}").open("wb") as log:
                started.append(
                    process.start([*command, nodes.address, *words], log, cwd=ROOT, env=own)
                )
        codes = [one.wait() for one in started]
        if any(codes):
            bad = next(rank for rank, code in enumerate(codes) if code)
            text = Path(folder, f"log-{bad}").read_text(encoding="utf-8", errors="replace")
            said = [line for line in text.splitlines() if line.strip()] or ["no message"]
            raise NfError(f"{module}: rank {bad} of {count} has failed: {said[-1]}.")
        return read_object(Path(folder, left))

# SPDX-License-Identifier: Apache-2.0
"""`python -m neuron_fabric.tests.ddp.law_run FOLDER [CASE ...]`: cases of the laws on four ranks.

One process imports torch and forks the ranks, which run the named cases (all). Each rank writes
FOLDER/rank-N.json: the differences by the name of the case, "" where the law holds.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from collections.abc import Collection
from pathlib import Path

import torch
import torch._dynamo  # imported before the fork: DDP imports it in every rank
import torch.distributed as dist

from neuron_fabric.tests.ddp import attach_cases, job_cases, law_cases
from neuron_fabric.tests.ddp.law_ranks import CASES, WORLD, LawError, Ranks

assert all((attach_cases, job_cases, law_cases)), "they register their cases"


def rank_of(rank: int, folder: str, names: Collection[str]) -> None:
    """Run the cases on one rank; no ``names``: all."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD
    )
    ranks, found = Ranks(rank, folder), {}
    for name, (workers, case) in CASES.items():
        if rank < workers and (name in names or not names):
            found[name] = ""
            try:
                case(ranks, workers)
                ranks.settle()
            except LawError as error:
                found[name] = str(error)
    Path(folder, f"rank-{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    gc.freeze()  # a collection in a rank need not look at all of torch
    torch.multiprocessing.start_processes(
        rank_of, (sys.argv[1], sys.argv[2:]), nprocs=WORLD, start_method="fork"
    )

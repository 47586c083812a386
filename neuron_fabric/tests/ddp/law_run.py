# SPDX-License-Identifier: Apache-2.0
"""`python -m neuron_fabric.tests.ddp.law_run FOLDER [CASE ...]`: cases of the laws (all) on
four forked ranks.

What a rank finds is in FOLDER/rank-N.json: differences by the name of the case.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from collections.abc import Collection
from pathlib import Path

import torch
import torch._dynamo  # here and not in every rank: DDP imports it
import torch.distributed as dist

from neuron_fabric.tests.ddp import (
    attach_cases,
    capacity_cases,
    code_cases,
    job_cases,
    law_cases,
    lost_cases,
    part_cases,
)
from neuron_fabric.tests.ddp.law_ranks import WORLD, Ranks

CASES = (
    *attach_cases.CASES,
    *capacity_cases.CASES,
    *part_cases.CASES,
    *lost_cases.CASES,
    *code_cases.CASES,
    *job_cases.CASES,
    *law_cases.CASES,
)


def rank_of(rank: int, folder: str, names: Collection[str]) -> None:
    """What one rank does: the cases of these ``names``, without any all."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=WORLD
    )
    ranks, found = Ranks(rank, folder), {}
    for name, workers, case in CASES:
        if rank < workers and (name in names or not names):
            found[name] = int(case(ranks, workers))
    Path(folder, f"rank-{rank}.json").write_text(json.dumps(found), encoding="utf-8")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    gc.freeze()  # a collection in a rank need not look at all of torch
    torch.multiprocessing.start_processes(
        rank_of, (sys.argv[1], sys.argv[2:]), nprocs=WORLD, start_method="fork"
    )

# SPDX-License-Identifier: Apache-2.0
"""Sum of the arrays of four processes, through shared memory."""

from multiprocessing import Process

import numpy as np

from neuron_fabric import collectives
from neuron_fabric.errors import say


def main(rank: int) -> None:
    with collectives.open("/dev/shm/pool-of-processes", rank, world=4) as pool:
        x = np.full(1000, rank + 1, np.float32)
        pool.all_reduce(x)
        say(f"rank {rank}: {x[0]:g}")


if __name__ == "__main__":
    for number in range(4):
        Process(target=main, args=(number,)).start()

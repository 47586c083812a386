# SPDX-License-Identifier: Apache-2.0
"""Sum of the arrays of four processes, through shared memory."""

import sys
from multiprocessing import Process

import numpy as np

from neuron_fabric import collectives
from neuron_fabric.errors import say


def rank(number: int) -> None:
    with collectives.open("/dev/shm/pool-of-processes", number, world=4) as pool:
        x = np.full(1000, number + 1, np.float32)
        pool.all_reduce(x)
        say(f"rank {number}: {x[0]:g}")


def main() -> int:
    ranks = [Process(target=rank, args=(number,)) for number in range(4)]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join()
    return int(any(one.exitcode for one in ranks))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Collectives of hosts that share a pool of aggregating CXL devices, and of processes that share
memory."""

from neuron_fabric.collectives.pool import Pool, Work
from neuron_fabric.collectives.pool import open_pool as open
from neuron_fabric.collectives.shared_memory import CollectiveTimeout, PoolError

__all__ = ["CollectiveTimeout", "Pool", "PoolError", "Work", "open"]

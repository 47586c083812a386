# SPDX-License-Identifier: Apache-2.0
"""Health monitor: signals of a training and the state changes that follow, equal on all ranks.

The name "health monitoring" is that of the NEURON-Fabric papers, of which only the abstracts are
public; signals, numbers and formats belong to this project. Nothing here imports torch.
"""

from neuron_fabric.monitor.controller import Controller
from neuron_fabric.monitor.signals import ReducerCounters, StepReport

__all__ = ["Controller", "ReducerCounters", "StepReport"]

# SPDX-License-Identifier: Apache-2.0
"""The health monitor: signals of a training, the states that follow, the same on every rank.

The name "health monitoring" is that of the NEURON-Fabric papers, which are public as abstracts
alone; signals, numbers and formats are this project's own. Nothing in here imports torch.
"""

from neuron_fabric.monitor.controller import Controller
from neuron_fabric.monitor.step_report import ReducerCounters, StepReport

__all__ = ["Controller", "ReducerCounters", "StepReport"]

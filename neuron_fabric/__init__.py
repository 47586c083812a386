# SPDX-License-Identifier: Apache-2.0
"""Captures gradients of a PyTorch training as stimulus for the controller (spec: capture spec).

A package of its own, `neuron-fabric`: a training script imports `neuron_fabric.ddp`, which needs
torch; `neuron_fabric.capture` reads and writes captures and needs numpy and safetensors.
"""

__version__ = "0.1.0"

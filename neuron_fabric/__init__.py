# SPDX-License-Identifier: Apache-2.0
"""Captures gradients of a PyTorch training as stimulus for the controller (spec: capture spec).

It imports nothing else of the project, so that a training script can take it along: a script's own
`models` folder would hide the project's. Only `neuron_fabric.ddp` and
`neuron_fabric.mean` need torch.
"""

# SPDX-License-Identifier: Apache-2.0
"""Low-bit gradients for PyTorch training: capture, communication hook, profiles, calibration,
monitor.

`neuron_fabric.capture` reads and writes captures and needs numpy and safetensors;
`neuron_fabric.ddp` and the hook need torch.
"""

__version__ = "0.1.0"

# SPDX-License-Identifier: Apache-2.0
"""Captures: gradients of every worker in some training steps; reader and writer, without torch::

  capture = Capture.open("captures/mine")
  gradients = capture.load(60)  # name -> float32[W, ...]

Names that are not exported here may change between versions.
"""

from neuron_fabric.capture.layout import ModuleSpec, TensorSpec
from neuron_fabric.capture.reader import Capture
from neuron_fabric.capture.safetensors_io import TensorFile, open_tensors, write_tensors
from neuron_fabric.capture.selection import Selection
from neuron_fabric.capture.writer import write_capture
from neuron_fabric.errors import CaptureError

__all__ = [
    "Capture",
    "CaptureError",
    "ModuleSpec",
    "Selection",
    "TensorFile",
    "TensorSpec",
    "open_tensors",
    "write_capture",
    "write_tensors",
]

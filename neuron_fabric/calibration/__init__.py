# SPDX-License-Identifier: Apache-2.0
"""Calibration: a training in FP32 with the packed reduction beside it, and the profile that comes
of what was seen. `python -m neuron_fabric calibrate` is the command."""

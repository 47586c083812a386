# SPDX-License-Identifier: Apache-2.0
"""Calibration: a training in FP32 with the packed reduction as a shadow, and the profile that
follows from the measurements. The command is `python -m neuron_fabric calibrate`."""

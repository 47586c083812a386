# SPDX-License-Identifier: Apache-2.0
"""Calibration: make an operating profile from a training in FP32.

During the training gradients are also packed and reduced every few steps, without an effect on it
(the shadow); the profile follows from these measurements. The command is `python -m neuron_fabric
calibrate`.
"""

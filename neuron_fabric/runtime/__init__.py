# SPDX-License-Identifier: Apache-2.0
"""The runtime: low-bit gradients where they are safe and where they pay, FP32 elsewhere."""

# SPDX-License-Identifier: Apache-2.0
"""Communication hooks of DistributedDataParallel, low-bit gradients and captures; see `attach`."""

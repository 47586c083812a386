# SPDX-License-Identifier: Apache-2.0
"""Communication hook of DistributedDataParallel for low-bit gradients; the entry is `attach`."""

# SPDX-License-Identifier: Apache-2.0
"""CXL.mem agent for any Type-3 device in 68-byte flit mode; numpy-free."""

# SPDX-License-Identifier: Apache-2.0
"""AXI4 memory agent: subordinate with latency, stalls, errors and poison, and the AXI rules."""

# SPDX-License-Identifier: Apache-2.0
"""Control and status registers: map generated from the RDL, AXI4-Lite agent, register model."""

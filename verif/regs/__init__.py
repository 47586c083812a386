# SPDX-License-Identifier: Apache-2.0
"""Control and status registers: generator of the map from the RDL, AXI4-Lite agent."""

# SPDX-License-Identifier: Apache-2.0
"""Example of the agent with a user-defined device; it needs nothing but cocotbext.cxl."""

# SPDX-License-Identifier: Apache-2.0
"""The agent against a device of your own, and how to run it with nothing but cocotbext.cxl."""

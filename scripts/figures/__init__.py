# SPDX-License-Identifier: Apache-2.0
"""What the design is worth, measured: traffic, timing, area and clock, and the page of them all."""

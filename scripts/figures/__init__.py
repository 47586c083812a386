# SPDX-License-Identifier: Apache-2.0
"""Measurements of the design: traffic, timing, area and clock rate, and a page of all of them."""

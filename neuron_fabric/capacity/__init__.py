# SPDX-License-Identifier: Apache-2.0
"""Reducer capacity: limits and cost model of a device, and the time of the network it saves."""

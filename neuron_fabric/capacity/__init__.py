# SPDX-License-Identifier: Apache-2.0
"""Capacity and cost model of a reducer: limits of a device, and the network time that it saves."""

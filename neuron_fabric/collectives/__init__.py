# SPDX-License-Identifier: Apache-2.0
"""Collectives of hosts that share a pool of aggregating CXL memory devices."""

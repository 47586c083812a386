# SPDX-License-Identifier: Apache-2.0
"""Ranks of trainings: started on real or simulated nodes, and their part of each measurement."""

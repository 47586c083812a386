# SPDX-License-Identifier: Apache-2.0
"""Trainings that are captured, and one that trains on the device's votes."""

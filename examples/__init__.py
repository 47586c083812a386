# SPDX-License-Identifier: Apache-2.0
"""Example trainings: captured, by a profile, and reduced by the device."""

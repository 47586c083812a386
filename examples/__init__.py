# SPDX-License-Identifier: Apache-2.0
"""Example trainings: gradients captured, sent as a profile says, and reduced by the device."""

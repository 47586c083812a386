# SPDX-License-Identifier: Apache-2.0
"""The error of the monitor."""

from __future__ import annotations

from neuron_fabric.errors import InputError


class MonitorError(InputError):
    """What ends a run on all its ranks, or makes a log useless."""

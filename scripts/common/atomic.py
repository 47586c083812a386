# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or not there: a crash or a full disk never leaves half of one."""

from __future__ import annotations

from neuron_fabric.output import write_text

__all__ = ["write_text"]

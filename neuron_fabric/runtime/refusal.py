# SPDX-License-Identifier: Apache-2.0
"""What `attach` refuses, in one line on every rank; torch is looked at by names alone."""

from __future__ import annotations

import sys

from neuron_fabric.errors import InputError
from neuron_fabric.text import say

_DDP = "DistributedDataParallel"
_FSDP = {"FullyShardedDataParallel", "FSDPModule"}
HOOK = "bucket_hook"


class AttachError(InputError):
    """A training that no profile can be attached to, or wrong use of what `attach` gave."""


def warn(text: str) -> None:
    """A line on stderr."""
    say(f"nf runtime: {text}", file=sys.stderr, flush=True)

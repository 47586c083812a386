# SPDX-License-Identifier: Apache-2.0
"""The fingerprint of a model: what its parameters are, not what they hold."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from neuron_fabric.profile.model_sketch import Parameter


def fingerprint(parameters: Sequence[Parameter]) -> str:
    """`sha256:` of name, shape, dtype, trainable, kind and tied names of each, in order."""
    digest = hashlib.sha256()
    for one in parameters:
        row = [one.name, list(one.shape), one.dtype, one.trainable, one.kind, list(one.names)]
        digest.update(json.dumps(row, ensure_ascii=True).encode() + b"\n")
    return f"sha256:{digest.hexdigest()}"

# SPDX-License-Identifier: Apache-2.0
"""What `shadow_sums` and the shadow before it have to find, by the definitions alone: for tests.

Nothing here is shared with the codec, the reducer or the hook.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

RATIO = np.float32(0.7)


def naive_statistics(sent: NDArray[np.float32], route: str, decode: str) -> dict[str, float]:
    """Of the workers' gradients float32[W, n]; a gradient of zeros abstains."""
    wide = sent.astype(np.float64)
    workers, size = wide.shape
    mean = wide.mean(axis=0)
    here = [w for w in range(workers) if sent[w].any()]
    voices, scales, gates = np.zeros(size), [], 0
    for w in range(workers):
        gate = np.ones(size, bool)
        if route == "G_TERNARY":
            gate = np.abs(sent[w]) > RATIO * np.float32(np.abs(wide[w]).mean())
        gates += int(gate.sum())
        if w in here:
            voices += np.where(sent[w] < 0, -1.0, 1.0) * gate
            scales.append(np.abs(wide[w][gate]).mean())
    s = sum(scales) / len(here) if here else 0.0
    if decode == "net":
        got = s * voices / max(1, len(here))
    else:
        tie = 1.0 if route == "G_BINARY" else 0.0
        got = s * np.where(voices > 0, 1.0, np.where(voices < 0, -1.0, tie))
    random = sum(abs(2 * c - workers) * math.comb(workers, c) for c in range(workers + 1))
    random /= workers * 2**workers
    agree = np.sign(got) == np.sign(mean)
    margin = (np.abs(voices) / workers - random).sum() / (1 - random) if workers > 1 else 0.0
    return {
        "dot": float((mean * got).sum()),
        "mean2": float((mean**2).sum()),
        "decoded2": float((got**2).sum()),
        "zeros": float((sent == 0).sum() / workers),
        "gate": gates / workers,
        "margin": float(margin),
        "agree": float(agree.sum()),
        "weighted": float((np.abs(mean) * agree).sum()),
        "mean1": float(np.abs(mean).sum()),
        "mean4": float((mean**4).sum()),
        "noise2": float(((wide - mean) ** 2).sum() / workers),
    }

# SPDX-License-Identifier: Apache-2.0
"""Statistics of calibration by their definitions, as a reference for tests.

Nothing here is shared with the codec, the reducer or the hook.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATIO = np.float32(0.7)


def naive_statistics(sent: NDArray[np.float32], route: str, decode: str) -> dict[str, float]:
    """Return the statistics of gradients float32[W, n] of the workers; zeros abstain."""
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
    margin = (np.abs(voices) / workers - random).sum() / (1 - random) if workers > 1 else 0.0
    return _sums(wide, mean, got) | {
        "zeros": float((sent == 0).sum() / workers),
        "gate": gates / workers,
        "margin": float(margin),
    }


def naive_codes(
    sent: NDArray[np.float32], bits: int, uniform: NDArray[np.float64]
) -> dict[str, float]:
    """Return the statistics of integer codes, rounded by ``uniform`` [W, n].

    1,024 elements share a unit, by which the largest |x| of all workers is the largest code.
    """
    wide = sent.astype(np.float64)
    workers, size = wide.shape
    top, got = 2 ** (bits - 1) - 1, np.zeros(size)
    here = max(1, sum(bool(one.any()) for one in sent))
    for at in range(0, size, 1024):
        inside = slice(at, at + 1024)
        unit = np.float32(np.abs(wide[:, inside]).max() / top)
        if float(unit) * top < np.abs(wide[:, inside]).max():
            unit = np.nextafter(unit, np.float32(np.inf))
        if unit > 0:
            codes = np.floor(wide[:, inside] / float(unit) + uniform[:, inside])
            codes[[not one.any() for one in sent]] = 0
            got[inside] = (float(unit) * codes.sum(axis=0) / here).astype(np.float32)
    return _sums(wide, wide.mean(axis=0), got) | {
        "zeros": float((sent == 0).sum() / workers),
        "gate": float(size),
        "margin": 0.0,
    }


def _sums(wide: Any, mean: Any, got: Any) -> dict[str, float]:
    agree, workers = np.sign(got) == np.sign(mean), len(wide)
    return {
        "dot": float((mean * got).sum()),
        "mean2": float((mean**2).sum()),
        "decoded2": float((got**2).sum()),
        "agree": float(agree.sum()),
        "weighted": float((np.abs(mean) * agree).sum()),
        "mean1": float(np.abs(mean).sum()),
        "mean4": float((mean**4).sum()),
        "noise2": float(((wide - mean) ** 2).sum() / workers),
    }

# SPDX-License-Identifier: Apache-2.0
"""Factors of low rank that are sent in place of a gradient matrix (PowerSGD); needs torch.

With M the gradient of a worker plus its residual, as a matrix, and Q the right factor of the step
before, one step of power iteration over all workers takes two all-reduces:

    P = orthogonal(sum of M Q)        Q = sum of M^T P / W        mean of M is about P Q^T

The sums are of bfloat16, half the bytes of FP32: a worker keeps what they lose in its residual, as
it keeps what the rank loses. Each rank computes P itself, so all need the same arithmetic.
"""

# No postponed annotations here, as in the hook's own module.

import zlib
from collections.abc import Sequence
from math import prod

import torch

SENT = torch.bfloat16
"""Type in which factors are sent."""


def rows_of(shape: Sequence[int], strides: Sequence[int], rank: int) -> int:
    """Return the rows of a parameter's gradient as a matrix in memory order.

    0: its factors take no fewer bytes than the gradient, which is sent as it is.

    Args:
        shape: Shape of the parameter.
        strides: Its strides in elements, which give the order in memory.
        rank: Columns of each factor.
    """
    if len(shape) < 2:
        return 0
    rows = max(zip(strides, shape, strict=True))[1]
    columns = prod(shape) // max(1, rows)
    return rows if SENT.itemsize * rank * (rows + columns) < 4 * rows * columns else 0


class Factors:
    """Right factors of the last step, by name of parameter: the same on every rank.

    Attributes:
        right: Q of each parameter, float32[columns, rank].
    """

    def __init__(self) -> None:
        self.right: dict[str, torch.Tensor] = {}

    def left(self, name: str, matrix: torch.Tensor, rank: int) -> torch.Tensor:
        """Return M Q of this worker, bfloat16[rows, rank]; Q is drawn from the name at first."""
        shape = (matrix.shape[1], rank)
        if name not in self.right or self.right[name].shape != shape:
            draw = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            self.right[name] = torch.randn(shape, generator=draw).to(matrix.device)
        return (matrix @ self.right[name]).to(SENT)

    @staticmethod
    def orthogonal(added: torch.Tensor) -> torch.Tensor:
        """Return an orthogonal basis of the columns of the workers' sum, float32[rows, rank]."""
        basis: torch.Tensor = torch.linalg.qr(added.float())[0]
        return basis

    def mean(self, name: str, basis: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Return the mean gradient, float32[rows, columns], and keep Q if it is finite.

        Args:
            name: Parameter.
            basis: P.
            right: Q, the mean over the workers.
        """
        mean = basis @ right.T
        if bool(mean.isfinite().all()):
            self.right[name] = right
        return mean

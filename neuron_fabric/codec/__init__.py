# SPDX-License-Identifier: Apache-2.0
"""Codec between gradients and lines: pack, count votes, add integer codes, decode.

A worker packs with its own scale (votes) or with units that all workers share (codes). The loops
are in `pack.c`, compiled at the first use, or in numpy, with bit-identical results.
NF_NATIVE=0 chooses numpy.
"""

from neuron_fabric.codec.integer_codes import (
    add_codes,
    maxima,
    pack_codes,
    sum_kind,
    units,
    unpack_codes,
    unpack_sums,
)
from neuron_fabric.codec.numpy_engine import F32, U8
from neuron_fabric.codec.packing import Packed, pack, unpack, unpack_net
from neuron_fabric.codec.reduction import add_planes, count, vote_of
from neuron_fabric.codec.routes import BUCKET, LINE, Route, elements_of_line, lines_of

__all__ = [
    "BUCKET",
    "F32",
    "LINE",
    "U8",
    "Packed",
    "Route",
    "add_codes",
    "add_planes",
    "count",
    "elements_of_line",
    "lines_of",
    "maxima",
    "pack",
    "pack_codes",
    "sum_kind",
    "units",
    "unpack",
    "unpack_codes",
    "unpack_net",
    "unpack_sums",
    "vote_of",
]

# SPDX-License-Identifier: Apache-2.0
"""Gradients to lines and back: packing with the worker's scale, counting votes, decoding.

The loops are in `pack.c`, compiled at the first use, or in numpy: the same bits. NF_NATIVE=0
chooses numpy.
"""

from neuron_fabric.codec.numpy_engine import F32, U8
from neuron_fabric.codec.packing import Packed, pack
from neuron_fabric.codec.planes import add_planes, vote_of
from neuron_fabric.codec.routes import LINE, Route, elements_of_line, lines_of
from neuron_fabric.codec.voting import Counted, count, unpack, unpack_net, votes

__all__ = [
    "F32",
    "LINE",
    "U8",
    "Counted",
    "Packed",
    "Route",
    "add_planes",
    "count",
    "elements_of_line",
    "lines_of",
    "pack",
    "unpack",
    "unpack_net",
    "vote_of",
    "votes",
]

# SPDX-License-Identifier: Apache-2.0
"""Bits chosen layer by layer: a quantiser of 2 to 8 bits, measured errors, and the choice.

The ideas are CGX's and L-GreCo's; buckets, rounding and formats are this project's.
"""

from neuron_fabric.bits.assignment import Layer, Option, kmeans, lgreco, settle, uniform
from neuron_fabric.bits.quantizer import Coded, Quantizer, decode, encode, mean_of
from neuron_fabric.bits.route_errors import route_errors
from neuron_fabric.codec.draws import Key, draws

__all__ = [
    "Coded",
    "Key",
    "Layer",
    "Option",
    "Quantizer",
    "decode",
    "draws",
    "encode",
    "kmeans",
    "lgreco",
    "mean_of",
    "route_errors",
    "settle",
    "uniform",
]

# SPDX-License-Identifier: Apache-2.0
"""Bit allocation: the route of each layer, chosen from measured errors and modelled costs.

The method is L-GreCo's (arXiv 2210.17357); formats and figures are this project's.
"""

from neuron_fabric.bits.lgreco_rule import Assignment, Layer, Option, lgreco, route_errors, settle

__all__ = ["Assignment", "Layer", "Option", "lgreco", "route_errors", "settle"]

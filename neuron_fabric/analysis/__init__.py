# SPDX-License-Identifier: Apache-2.0
"""Analysis of a capture: what each route would have made of its gradients.

`analysed` reduces the gradients of one tensor; `analyse` does so for a capture.
"""

from neuron_fabric.analysis.capture_analysis import analyse, warnings_of
from neuron_fabric.analysis.tensor_figures import OPTIONS, TensorFigures, analysed, label_of

__all__ = ["OPTIONS", "TensorFigures", "analyse", "analysed", "label_of", "warnings_of"]

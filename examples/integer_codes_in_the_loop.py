# SPDX-License-Identifier: Apache-2.0
"""Trains a small ResNet on the integer codes of the device, beside the same training in FP32.

    python -m examples.integer_codes_in_the_loop                    # everything through the RTL
    python -m examples.integer_codes_in_the_loop --device model     # the reference models: fast

As `votes_in_the_loop`, with routes G_INT4 and G_INT8: workers share the scale of their codes, which
are rounded stochastically, and the mean of the device's sums is the gradient. Regions of less than
1,024 elements stay in FP32, as in every profile; the head is one of them.
"""

from __future__ import annotations

import sys

from examples.check_variants import INT4, INT8
from examples.device_loop import run
from scripts.report.train_targets import FP32

if __name__ == "__main__":
    sys.exit(run("integer_codes_in_the_loop", __doc__, (FP32, INT4, INT8)))

# SPDX-License-Identifier: Apache-2.0
"""Trains a small ResNet on the votes of the device, beside the same training in FP32.

    python -m examples.votes_in_the_loop                    # everything through the RTL
    python -m examples.votes_in_the_loop --device model     # the reference models instead: fast

A server of its own stands in the device's place; `attach` sends it all gradients. Every variant
starts from the same weights and sees the same batches. Regions of less than 1,024 elements stay in
FP32, as in every profile; the head is one of them.
"""

from __future__ import annotations

import sys

from examples.device_loop import run
from scripts.report.train_targets import BINARY, FP32, TERNARY

if __name__ == "__main__":
    sys.exit(run("votes_in_the_loop", __doc__, (FP32, BINARY, TERNARY)))

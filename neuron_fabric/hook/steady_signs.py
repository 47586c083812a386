# SPDX-License-Identifier: Apache-2.0
"""Signs of decoded gradients that stay the same from step to step; needs torch."""

from __future__ import annotations

from collections import defaultdict

import torch

from neuron_fabric.hook.monitor_samples import WATCHED

RUN = 32
"""Steps with one sign that make an element saturated."""


class Signs:
    """Number of consecutive steps in which watched elements had the same decoded sign."""

    def __init__(self) -> None:
        self.last: dict[str, torch.Tensor] = {}
        self.run: dict[str, torch.Tensor] = {}

    def see(self, name: str, d: torch.Tensor, share: float) -> None:
        """Record the signs of a decoded tensor in a step.

        ``share`` is the tensor's share of the elements of its region, and so of the watched
        elements.
        """
        every = max(1, int(d.numel() // max(1.0, WATCHED * share)))
        sign = d[::every].nan_to_num().sign().to(torch.int8)
        last = self.last.get(name)
        if last is None or last.shape != sign.shape:
            last, self.run[name] = sign, torch.zeros_like(sign, dtype=torch.uint8)
        same = (sign == last) & (sign != 0)
        self.run[name] = (self.run[name].clamp(max=RUN - 1) + 1) * same
        self.last[name] = sign

    def forget(self, name: str) -> None:
        """Drop the record of a tensor that is sent in FP32."""
        self.last.pop(name, None)
        self.run.pop(name, None)

    def saturation(self, regions: dict[str, str]) -> dict[str, float]:
        """Return by region the share of watched elements with one sign for at least `RUN` steps.

        ``regions`` gives the region by name of parameter.
        """
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        held = [(run >= RUN).sum() for run in self.run.values()]
        steady = torch.stack(held).tolist() if held else []  # one copy from the device
        for (name, run), number in zip(self.run.items(), steady, strict=True):
            found[regions[name]][0] += number
            found[regions[name]][1] += run.numel()
        return {region: part / size for region, (part, size) in found.items() if size}

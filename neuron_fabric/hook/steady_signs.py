# SPDX-License-Identifier: Apache-2.0
"""Signs of decoded gradients that stay the same from step to step; needs torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate

import torch

from neuron_fabric.hook.monitor_samples import WATCHED

Held = Mapping[str, torch.Tensor]
RUN = 32
"""Steps with one sign that make an element saturated."""


class Signs:
    """Number of consecutive steps in which watched elements had the same decoded sign.

    ``last`` and ``run`` hold signs and numbers by name of parameter. Those of parameters that are
    seen together are views of one tensor, which a step updates at once.
    """

    def __init__(self, last: Held | None = None, run: Held | None = None) -> None:
        """Start without records, or with those of a checkpoint."""
        self.last, self.run = dict(last or {}), dict(run or {})
        self._joined: dict[tuple[str, ...], tuple[torch.Tensor, torch.Tensor]] = {}

    def see(self, decoded: Mapping[str, tuple[torch.Tensor, float]]) -> None:
        """Record the signs of decoded tensors in a step.

        Args:
            decoded: By name of parameter, the flat tensor and its share of the elements of its
                region, and so of the watched elements.
        """
        if not decoded:
            return
        seen = [
            d[:: max(1, int(d.numel() // max(1.0, WATCHED * share)))]
            for d, share in decoded.values()
        ]
        sign = torch.cat(seen).nan_to_num_().sign_().to(torch.int8)
        names = tuple(decoded)
        if names not in self._joined:
            self._join(names, sign.split([one.numel() for one in seen]))
        last, run = self._joined[names]
        same = (sign == last).logical_and_(sign)
        run.clamp_(max=RUN - 1).add_(1).mul_(same)
        last.copy_(sign)

    def _join(self, names: tuple[str, ...], signs: Sequence[torch.Tensor]) -> None:
        """Make the records of these parameters views of one tensor; ``signs`` start new ones."""
        for name, sign in zip(names, signs, strict=True):
            if name not in self.last or self.last[name].shape != sign.shape:
                self.last[name], self.run[name] = sign, torch.zeros_like(sign, dtype=torch.uint8)
        self._joined = {key: both for key, both in self._joined.items() if not {*key} & {*names}}
        self._joined[names] = tuple(
            torch.cat([held[name] for name in names]) for held in (self.last, self.run)
        )
        for held, one in zip((self.last, self.run), self._joined[names], strict=True):
            held.update(zip(names, one.split([sign.numel() for sign in signs]), strict=True))

    def forget(self, name: str) -> None:
        """Drop the record of a tensor that is sent in FP32."""
        if self.last.pop(name, None) is not None:
            del self.run[name]
            self._joined = {key: both for key, both in self._joined.items() if name not in key}

    def saturation(self, regions: Mapping[str, str]) -> dict[str, float]:
        """Return by region the share of watched elements with one sign for at least `RUN` steps.

        ``regions`` gives the region by name of parameter.
        """
        if not self.run:
            return {}
        sizes = [one.numel() for one in self.run.values()]
        ends = torch.tensor(list(accumulate(sizes)), device=next(iter(self.run.values())).device)
        steady = (torch.cat(list(self.run.values())) >= RUN).cumsum(0)[ends - 1].tolist()
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for name, size, until, before in zip(self.run, sizes, steady, [0, *steady], strict=False):
            found[regions[name]][0] += until - before
            found[regions[name]][1] += size
        return {region: part / size for region, (part, size) in found.items() if size}

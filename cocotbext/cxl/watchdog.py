# SPDX-License-Identifier: Apache-2.0
"""Ends what would wait for ever: link-up, responses, requests that cannot leave. No simulator."""

from __future__ import annotations

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.link.link import HostLink
from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.transactions import Outstanding

_RETRIES = ("retry_local", "retry_remote", "retry_timeout", "phy_reinit")
_OFTEN = 64  # clocks between two looks, at most


class Watchdog:
    """Call ``check`` every ``interval`` clocks.

    A response time-out begins when a request becomes the oldest one, so that a slow device may
    have any number of them queued. A link-level retry begins it anew, as retries have limits of
    their own; a device that retries beyond these is not waited for.
    """

    def __init__(self, cfg: CxlConfig, link: HostLink, requests: Outstanding) -> None:
        self._cfg = cfg
        self._link = link
        self._requests = requests
        limits = [n for n in (cfg.response_timeout, cfg.link_up_timeout) if n]
        self.interval = max(1, min([_OFTEN, *(n // 16 for n in limits)]))
        self._state: object = None
        self._since = 0
        self._retries = 0
        self._spare = 0
        self._told = False

    def check(self, clock: int, up: bool, in_reset: bool = False, awaited: bool = True) -> str:
        """The text of a time-out that is over in this clock, or nothing.

        ``up``: credits have come; ``awaited``: somebody waits, in reset too.
        """
        state, limit, what = self._look(up, in_reset, awaited)
        retries = sum(self._link.counters[name] for name in _RETRIES)
        if state != self._state:
            config = self._link.config
            self._state, self._since, self._told = state, clock, False
            self._spare = 2 * config.max_retry * (config.max_phy_reinit + 1)
        elif retries != self._retries and self._spare > 0:
            self._spare -= 1
            self._since = clock
        self._retries = retries
        if not limit or self._told or clock - self._since < limit:
            return ""
        self._told = True
        return f"time-out: {what} within {limit:,} clocks; {self._link_text(in_reset)}"

    def _look(self, up: bool, in_reset: bool, awaited: bool) -> tuple[object, int, str]:
        """What is waited for, for how many clocks, and its name."""
        cfg, oldest = self._cfg, self._requests.oldest
        if in_reset and not awaited:
            return None, 0, ""
        if not up:
            return ("link-up", in_reset), cfg.link_up_timeout, "no link-up"
        if oldest is not None:
            return oldest, cfg.response_timeout, "no response to the oldest request"
        if not self._link.tx_idle:
            return self._link.unsent, cfg.response_timeout, "nothing could be sent"
        return None, 0, ""

    def _link_text(self, in_reset: bool) -> str:
        """Everything that may be the reason, credits first."""
        link = self._link
        if in_reset:
            return "rst_n is not 1"
        credits = {"Req": link.credits.plain, "RwD": link.credits.data}
        missing = [name for name, count in credits.items() if count <= 0]
        parts = [
            f"no {' and no '.join(missing)} credits from the device"
            if missing
            else f"credits from the device: {credits['Req']} Req, {credits['RwD']} RwD"
        ]
        granted = {"NDR": link.returns.peer.plain, "DRS": link.returns.peer.data}
        if link.active:
            parts += [f"the device has no {name} credits" for name, n in granted.items() if n <= 0]
        if link.packer.waiting:
            parts.append(f"requests not sent: {link.packer.waiting}")
        if not link.phy:
            parts.append("phy_up is low")
        if not link.counters["rx_flit"]:
            parts.append("no flit has come from the device")
        elif not link.initialised:
            parts.append("no INIT.Param has come from the device")
        if bad := link.counters["crc_error"] + link.counters["pid_uncorrectable"]:
            parts.append(f"bad flits from the device: {bad}")
        if link.retry.lrsm is not Lrsm.NORMAL:
            parts.append(f"RETRY.Req {link.retry.num_retry} of the host is not acknowledged")
        if retrains := link.counters["phy_reinit"]:
            parts.append(f"retrains: {retrains}")
        if link.config.retry and link.buffer.free <= 2:
            parts.append(f"flits that the device has not acknowledged: {link.unacknowledged}")
        return ", ".join(parts)

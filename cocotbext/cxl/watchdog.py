# SPDX-License-Identifier: Apache-2.0
"""Time-outs of a host: link-up, responses, and requests that cannot be sent; needs no simulator."""

from __future__ import annotations

from cocotbext.cxl.config import CxlConfig
from cocotbext.cxl.link.partner import HostLink
from cocotbext.cxl.link.retry import Lrsm
from cocotbext.cxl.transactions import Outstanding

_RETRIES = ("retry_local", "retry_remote", "retry_timeout", "phy_reinit")
_OFTEN = 64  # clocks between two looks, at most


class Watchdog:
    """Detector of time-outs; call ``check`` every ``interval`` clocks.

    The response time-out starts when a request becomes the oldest one, so that a slow device may
    have any number of requests queued. A link-level retry restarts it, because retries have their
    own limits; beyond these limits a retrying device is not waited for.
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
        """Check for a time-out.

        Args:
            clock: current clock.
            up: credits of both kinds have been received.
            in_reset: the reset is active.
            awaited: a call is waiting; if so, time-outs also count during reset.

        Returns:
            The text of a time-out that expires in this clock, or "".
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
        """Return what the host waits for: the state, its limit in clocks (0: none), and a text.

        The state is compared with that of the previous check; a change of state restarts the
        time-out.
        """
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
        """Describe the state of the link for a time-out message, credits first."""
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

# SPDX-License-Identifier: Apache-2.0
"""Simulated nodes on one machine, each in a network namespace, with a rate limit on its link.

The links lead to a bridge in a further namespace; the limits are token buckets (tbf). It needs root
and iproute2; everything is removed at the end.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from neuron_fabric.printable import one_line
from scripts.common import process
from scripts.common.errors import NfError

LINK, LOOPBACK = "eth0", "loopback"
_QUEUE = "200ms"
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_LEAST_BURST, _TICKS = 16 << 10, 250
"""Bytes that pass at once: what a rate moves between two ticks of the kernel, and no more, or what
is small would not see the rate."""


@dataclass(frozen=True)
class Nodes:
    """Simulated nodes of a measurement.

    Attributes:
        prefix: For each node, the words to put before a command that runs there.
        address: IP address of node 0.
        limit: Sets the rate of a node's link, both ways; None where links have no rate.
        env: Variables for the processes.
    """

    prefix: tuple[tuple[str, ...], ...]
    address: str
    limit: Callable[[int, str], None] | None
    env: dict[str, str]


def rate_of(text: str) -> str:
    """Return a rate in the notation of tc ("100mbit") unchanged, or raise (argparse type)."""
    found = re.fullmatch(r"(\d{1,4})[kmg]bit", text)
    if not found or not int(found[1]):
        raise argparse.ArgumentTypeError(f"{text!r} is no rate, as 100mbit or 1gbit")
    return text


def bytes_a_second(rate: str) -> float:
    """Convert a rate in the notation of tc (digits and kbit, mbit or gbit) to bytes per second."""
    return float(rate[:-4]) * _UNITS[rate[-4:]] / 8


def why_not() -> str:
    """Return the reason why network namespaces cannot be made here; "" if they can."""
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None and shutil.which(tool, path="/usr/sbin:/sbin") is None:
            return f"{tool} (iproute2) is not installed"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"nf-try-{os.getpid()}"
    tried = _call("ip", "netns", "add", name, check=False)
    _call("ip", "netns", "del", name, check=False)
    return tried and f"ip netns: {tried}"


def plain(count: int) -> Nodes:
    """Return ``count`` nodes without namespaces and rates: plain processes of this machine."""
    return Nodes(((),) * count, "127.0.0.1", None, {})


def network(count: int, name: str) -> AbstractContextManager[Nodes]:
    """Return the context of ``count`` nodes on LOOPBACK, or with links of a rate (see
    `namespaces`)."""
    return nullcontext(plain(count)) if name == LOOPBACK else namespaces(count, name)


@contextmanager
def namespaces(count: int, rate: str) -> Iterator[Nodes]:
    """Context of ``count`` nodes whose links have the rate ``rate`` (notation of tc).

    Raises:
        NfError: They cannot be made.
    """
    hub, names = f"nf-hub-{os.getpid()}", [f"nf-{n}-{os.getpid()}" for n in range(count)]

    def limit(node: int, rate: str) -> None:
        burst = str(max(_LEAST_BURST, round(bytes_a_second(rate) / _TICKS)))
        for place, device in ((names[node], LINK), (hub, f"port{node}")):
            # Removed first: a changed tbf keeps its queue, and a packet in it that is larger
            # than the new burst (TCP hands over up to 64 KiB) never leaves, nor what follows it.
            _call("tc", "-n", place, "qdisc", "del", "dev", device, "root", check=False)
            words = ("tbf", "rate", rate, "burst", burst, "latency", _QUEUE)
            _call("tc", "-n", place, "qdisc", "add", "dev", device, "root", *words)

    try:
        _call("ip", "netns", "add", hub)
        _call("ip", "-n", hub, "link", "add", "bridge0", "type", "bridge")
        _call("ip", "-n", hub, "link", "set", "bridge0", "up")
        for n, name in enumerate(names):
            _call("ip", "netns", "add", name)
            peer = ("peer", "name", f"port{n}", "netns", hub)
            _call("ip", "-n", name, "link", "add", LINK, "type", "veth", *peer)
            _call("ip", "-n", hub, "link", "set", f"port{n}", "master", "bridge0", "up")
            _call("ip", "-n", name, "address", "add", f"10.81.0.{n + 1}/24", "dev", LINK)
            for device in ("lo", LINK):
                _call("ip", "-n", name, "link", "set", device, "up")
            limit(n, rate)
        prefix = tuple((_tool("ip"), "netns", "exec", name) for name in names)
        yield Nodes(prefix, "10.81.0.1", limit, {"GLOO_SOCKET_IFNAME": LINK})
    finally:
        for name in (*names, hub):
            _call("ip", "netns", "del", name, check=False)


def _tool(name: str) -> str:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin") or name


def _call(tool: str, *words: str, check: bool = True) -> str:
    """Run a tool and return "" on success.

    On failure it raises NfError, or with `check` False returns the error message.
    """
    command = (_tool(tool), *words)
    done = process.captured(command)
    if done.returncode == 0:
        return ""
    said = one_line(done.stderr.strip() or f"exit code {done.returncode}", 160)
    if check:
        raise NfError(f"{' '.join(command[:4])} ...: {said}.")
    return said

# SPDX-License-Identifier: Apache-2.0
"""Tests of network namespaces as simulated nodes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from scripts.ranks import node_network

_TAKE = """
import socket, time
server = socket.create_server(("10.81.0.2", 5001))
print("listens", flush=True)
connection, begin, late = server.accept()[0], time.monotonic(), 0
connection.settimeout(0.1)
while (passed := time.monotonic() - begin) < 4:
    try:
        late += len(connection.recv(1 << 20)) * (passed > 3)
    except TimeoutError:
        pass
print(late)
"""
_GIVE = """
import socket
connection = socket.create_connection(("10.81.0.2", 5001))
while True:
    connection.sendall(bytes(1 << 20))
"""


def test_a_busy_link_goes_on_at_another_rate() -> None:
    """Check that data still pass after the rate of a busy link is lowered.

    Before, a large packet that waited at the old rate never left, nor any after it, and ranks of a
    training waited until their time-out.
    """
    if why := node_network.why_not():
        pytest.skip(why)
    with node_network.namespaces(2, "1gbit") as nodes:
        assert nodes.limit is not None
        gives, takes = ([*prefix, sys.executable, "-c"] for prefix in nodes.prefix)
        taker = subprocess.Popen([*takes, _TAKE], stdout=subprocess.PIPE, encoding="ascii")
        assert taker.stdout is not None
        assert taker.stdout.readline() == "listens\n"
        giver = subprocess.Popen([*gives, _GIVE], stderr=subprocess.DEVNULL)
        try:
            time.sleep(1.0)  # the link is busy
            nodes.limit(0, "10mbit")
            late = int(taker.communicate(timeout=60)[0])
        finally:
            giver.kill()
            giver.wait()
            taker.kill()
            taker.wait()
    assert 0 < late < 2 * node_network.bytes_a_second("10mbit")

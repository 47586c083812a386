# SPDX-License-Identifier: Apache-2.0
"""Training of a small ResNet whose gradients are reduced by the device, through a reducer server.

    nf serve --workers 4 & python -m examples.train_on_device

It trains by a profile with the running server and again with torch, and compares the weights bit
for bit; --alone leaves out torch, so that the server may be killed and restarted. `nf train check`
compares losses and bytes of the routes.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from examples.workloads import Digits, DigitsResNet, fork_ranks
from neuron_fabric import attach
from neuron_fabric.errors import LineError, say
from neuron_fabric.reducers.server_wire import default_socket

PROFILE = Path(__file__).with_name("digits.toml")
VOTES = "G_BINARY"
# Make the profile vote after a few steps, and again soon after a fault.
SOON = {
    "steps = 0.10": "steps = 3",
    "sample_every = 20": "sample_every = 2\nprobe_every = 1\ncooldown = 4\ncooldown_most = 4\n"
    "band_count = 2\nhold = 1\nlock_fallbacks = 1000\ncapacity_cooldown = 4\nspike_in = 1000.0\n"
    "drift_in = 1000.0",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="train_on_device", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--workers", type=int, default=4, help="gloo processes (4)")
    add("--steps", type=int, default=96, help="steps of each training (96)")
    add("--socket", type=Path, default="default", help="socket of the server (default)")
    add("--pool", type=Path, help="shared memory in place of a server: a path in /dev/shm")
    add("--until", type=Path, help="stop as soon as this file exists")
    add("--fp32", default="ring", choices=("ring", "ordered"), help="see attach")
    low = (VOTES, "G_INT4", "G_INT8")
    add("--low", default=VOTES, choices=low, help="low-bit route of the profile")
    add("--timeout", type=float, default=60.0, help="time-out in seconds")
    add("--close-after", type=float, help="close rounds after so many seconds")
    add("--min-workers", type=int, help="least workers of a closed round")
    add("--alone", action="store_true", help="leave out the training by torch")
    add("--out", type=Path, help="folder of the log of the monitor")
    args = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="nf-device-") as folder:
            path = default_socket() if str(args.socket) == "default" else args.socket
            reducer = f"pool:{args.pool}" if args.pool else f"unix:{path}"
            by = partial(compared, args=args, reducer=reducer, folder=folder)
            fork_ranks(by, args.workers, folder)
    except torch.multiprocessing.ProcessExitedException as error:
        return int(error.exit_code) if error.exit_code > 0 else 1
    except LineError as error:
        say(f"train_on_device: {error}", file=sys.stderr)
        return 1
    return 0


def compared(rank: int, args: argparse.Namespace, reducer: str, folder: str) -> int:
    """Train with the server, then with the torch reducer, and compare the weights bit for bit.

    With `--alone` only the server is used. Rank 0 prints the result.

    Returns:
        1 on rank 0 if the weights of the ranks differ, or those of server and torch; else 0.
    """
    profile = Path(folder, f"profile-{rank}.toml")
    text = PROFILE.read_text(encoding="utf-8")
    codes = {'"G_BINARY", decode = "net"': f'"{args.low}"'} if args.low != VOTES else {}
    fed = {'decode = "net"': 'decode = "net", feedback = true'} if args.close_after else {}
    for old, new in {**SOON, **fed, **codes}.items():
        text = text.replace(old, new)
    profile.write_text(text, encoding="utf-8")
    words = {"fp32": args.fp32, "timeout_s": args.timeout}
    closing = {"close_after": args.close_after, "min_workers": args.min_workers}
    data, weights = Digits(), []
    for way, monitor in [(reducer, args.out), ("torch", None)][: 1 if args.alone else 2]:
        more = closing if way == reducer else {}
        own = {"reducer": way, "monitor": monitor, **words, **more}
        net, session, steps = train(args, data, profile, **own)
        weights.append(torch.cat([p.detach().flatten() for p in net.parameters()]))
        if way == reducer:
            counters, sent, done = session.reducer_counters, session.sent, steps
    every: list[Any] = [None] * args.workers
    digests = [hashlib.sha256(one.numpy().tobytes()).digest() for one in weights]
    dist.all_gather_object(every, (digests, counters.late))
    if rank:
        return 0
    equal = all(one[0][0] == every[0][0][0] for one in every)
    print(f"{done} steps of {args.workers} workers by {reducer.partition(':')[2]}")
    print("sent by a worker: " + ", ".join(f"{name} {n:,}" for name, n in sorted(sent.items())))
    print(f"buckets: {counters.buckets} done, {counters.events['lost']} lost")
    if args.close_after:
        late = " ".join(str(one[1]) for one in every)
        print(f"rounds closed: {counters.closed}; late by rank: {late}")
    print(f"weights of the ranks: {'the same' if equal else 'NOT THE SAME'}")
    differ = 0
    if not args.alone:
        differ = int((weights[0].view(torch.int32) != weights[1].view(torch.int32)).sum())
        print(f"against torch: {differ} of {weights[0].numel():,} weights differ")
    return int(not equal or differ > 0)


def train(
    args: argparse.Namespace, data: Digits, profile: Any, **words: Any
) -> tuple[Any, Any, int]:
    """Train a DigitsResNet; return it with its closed session and the number of steps done."""
    torch.manual_seed(1)
    net = DigitsResNet()
    model = DistributedDataParallel(net, bucket_cap_mb=0.008)
    session = attach(model, profile, scaler=False, env={}, **words)
    assert session is not None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(args.steps):
        x, y = data.batch(1, step, dist.get_rank(), args.workers, 16)
        optimizer.zero_grad()
        loss = data.loss(model, x, y)
        loss.backward()
        session.observe(loss)
        optimizer.step()
        if args.until is not None and _any(args.until.exists()):
            break
    session.close()
    return net, session, step + 1


def _any(here: bool) -> bool:
    """Return whether `here` is true on at least one rank; all ranks must call it."""
    flag = torch.tensor(int(here))
    dist.all_reduce(flag)
    return bool(flag)


if __name__ == "__main__":
    sys.exit(main())

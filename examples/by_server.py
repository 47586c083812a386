# SPDX-License-Identifier: Apache-2.0
"""The digits trained twice, by torch's reducer and by a reducer server: are the weights the same?

nf serve --workers 4 &
python -m examples.by_server

With --alone there is only the training by the server, which may be killed, stopped and started
again meanwhile: the ranks' weights stay equal.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import sys
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # here and not in every rank: DDP imports it
import torch.distributed as dist
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from examples.digits import Digits, DigitsResNet
from neuron_fabric import attach
from neuron_fabric.reducers.server_wire import default_socket

PROFILE = Path(__file__).with_name("digits.toml")
VOTES, CODES = "G_BINARY", ("G_INT4", "G_INT8")
# From a profile that was written by hand to votes in a few steps, and back after a fault.
SOON = {
    "steps = 0.10": "steps = 3",
    "sample_every = 20": "sample_every = 2\nprobe_every = 1\ncooldown = 4\ncooldown_most = 4\n"
    "band_count = 2\nhold = 1\nlock_fallbacks = 1000\ncapacity_cooldown = 4\nspike_in = 1000.0\n"
    "drift_in = 1000.0",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--socket", type=Path, help="of nf serve (its default one)")
    parser.add_argument("--workers", type=int, default=4, help="as many as the server serves")
    parser.add_argument("--steps", type=int, default=24, help="of each training")
    parser.add_argument("--until", type=Path, help="a training ends before if this file is there")
    parser.add_argument("--fp32", default="ring", choices=("ring", "ordered"), help="see attach")
    parser.add_argument("--low", default=VOTES, choices=(VOTES, *CODES), help="low-bit route")
    parser.add_argument("--timeout", type=float, default=60.0, help="for a server that is silent")
    parser.add_argument("--alone", action="store_true", help="without the training by torch")
    parser.add_argument("--out", type=Path, help="folder for the monitor's log")
    args = parser.parse_args()
    args.socket = args.socket or default_socket()
    with tempfile.TemporaryDirectory(prefix="nf-by-server-") as folder:
        gc.freeze()  # a collection in a rank need not look at all of torch
        try:
            torch.multiprocessing.start_processes(
                rank_of, (args, folder), nprocs=args.workers, start_method="fork"
            )
        except torch.multiprocessing.ProcessExitedException as error:
            return int(error.exit_code) if error.exit_code > 0 else 1
    return 0


def rank_of(rank: int, args: argparse.Namespace, folder: str) -> None:
    """What one rank does."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=args.workers
    )
    profile = Path(folder, f"profile-{rank}.toml")
    text = PROFILE.read_text(encoding="utf-8")
    codes = {'"G_BINARY", decode = "net"': f'"{args.low}"'} if args.low != VOTES else {}
    for old, new in {**SOON, **codes}.items():
        text = text.replace(old, new)
    profile.write_text(text, encoding="utf-8")
    code = 0
    by_server, sent, events = train(args, profile, f"unix:{args.socket}")
    ways = [by_server] if args.alone else [by_server, train(args, profile, "torch")[0]]
    every: list[Any] = [None] * args.workers
    dist.all_gather_object(every, [hashlib.sha256(one.numpy().tobytes()).digest() for one in ways])
    if rank == 0:
        equal = all(one[0] == every[0][0] for one in every)
        print(f"{events['steps']} steps of {args.workers} workers by {args.socket}")
        print("sent by a worker: " + ", ".join(f"{name} {n:,}" for name, n in sorted(sent.items())))
        print(f"buckets: {events['buckets']} done, {events['lost']} lost")
        print(f"weights of the ranks: {'the same' if equal else 'NOT THE SAME'}")
        code = int(not equal)
        if not args.alone:
            differ = int((ways[0].view(torch.int32) != ways[1].view(torch.int32)).sum())
            print(f"against torch: {differ} of {ways[0].numel():,} weights differ")
            code |= int(differ > 0)
    sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()
    os._exit(code)  # a thread of gloo may outlive what it works for


def train(
    args: argparse.Namespace, profile: Path, reducer: str
) -> tuple[torch.Tensor, Mapping[str, int], Mapping[str, int]]:
    """The weights, bytes that were sent by route, and buckets that were done and lost."""
    torch.manual_seed(1)
    rank, workers = dist.get_rank(), dist.get_world_size()
    data, net = Digits(), DigitsResNet()
    model = DistributedDataParallel(net, bucket_cap_mb=0.008)
    folder = args.out if reducer != "torch" else None
    rt = attach(
        *(model, profile),
        reducer=reducer,
        fp32=args.fp32,
        timeout_s=args.timeout,
        monitor=folder,
        scaler=False,
        env={},
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(args.steps):
        images, labels = data.batch(1, step, rank, workers, 16)
        loss = functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        rt.observe(loss)
        optimizer.step()
        if args.until is not None and _any(args.until.exists()):
            break
    counters = rt._router.reducer.counters
    sent, lost = dict(rt.sent), int(counters.events["lost"])
    rt.close()
    weights = torch.cat([p.detach().flatten() for p in net.parameters()])
    return weights, sent, {"buckets": counters.buckets, "lost": lost, "steps": step + 1}


def _any(here: bool) -> bool:
    """Whether it is so on some rank."""
    flag = torch.tensor(int(here))
    dist.all_reduce(flag)
    return bool(flag)


if __name__ == "__main__":
    sys.exit(main())

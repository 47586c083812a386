# SPDX-License-Identifier: Apache-2.0
"""`nf measure bench WHAT`: measures the speed of the tools and compares it with goals."""

from __future__ import annotations

import argparse
from types import ModuleType

from scripts.benchmarks import bench_collectives, bench_hook, bench_misses, bench_runtime

# Each module has HELP, add_arguments(parser) and run(args), which returns the exit code.
BENCHES: dict[str, ModuleType] = {
    "misses": bench_misses,
    "runtime": bench_runtime,
    "hook": bench_hook,
    "collectives": bench_collectives,
}

EXAMPLES = """examples:
  nf measure bench misses --memory-latency 48  hits, misses and isolation, in clocks
  nf measure bench runtime                   packing, votes and decoding against a copy
  nf measure bench hook                      a step of a training by the hook against plain DDP
  nf measure bench collectives               collectives of processes against gloo
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    for name, module in BENCHES.items():
        sub = kinds.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(sub)


def run(args: argparse.Namespace) -> int:
    code: int = BENCHES[args.what].run(args)
    return code

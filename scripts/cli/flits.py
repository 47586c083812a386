# SPDX-License-Identifier: Apache-2.0
"""`nf report flits`: prints a recorded trace of the CXL link, flit slot by flit slot.

examples:
  nf run test_modes::fp32 --link-trace       record build/runs/*/link.trace
  nf report flits build/runs/RUN/link.trace  print it slot by slot
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cocotbext.cxl.trace import TraceError, explain, read
from neuron_fabric.data import open_file
from neuron_fabric.errors import say
from scripts.common.errors import NfError

MAX_BYTES = 1 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="trace written by `nf run --link-trace`")


def run(args: argparse.Namespace) -> int:
    try:
        with open_file(args.file) as stream:
            if os.fstat(stream.fileno()).st_size > MAX_BYTES:
                raise NfError(f"{args.file} has more than {MAX_BYTES >> 20:,} MiB; divide it.")
    except FileNotFoundError:
        raise NfError(f"cannot read {args.file}: there is no such file.") from None
    except OSError as error:
        raise NfError(f"cannot read {args.file}: {error.strerror}.") from error
    try:
        for _, text in explain(read(args.file)):
            say(*text.splitlines())
    except TraceError as error:
        raise NfError(f"{error}.") from error
    return 0

# SPDX-License-Identifier: Apache-2.0
"""`nf serve`: runs a reducer server, with the models or the RTL, for trainings on this machine.

Exit code 0: ended by Ctrl-C or SIGTERM; 2: it cannot be started.

examples:
  nf serve --workers 4                       serve a training of four workers with the RTL
  NF_REDUCER=unix torchrun ...               the training, with neuron_fabric.attach
  nf serve --status                          print the status of a server
  nf serve --device model --workers 4        serve with the reference models (fast)
  nf serve --workers 4 --devices 2           deal the lines of a bucket to two devices
  nf serve --workers 2 --socket PATH         listen at PATH: NF_REDUCER=unix:PATH
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from models.regions import MAX_WORKERS
from neuron_fabric.errors import CaptureError, say, telling
from neuron_fabric.reducers.server_wire import (
    Refused,
    ServerError,
    StatusReport,
    StatusRequest,
    WireError,
    check_path,
    close_all,
    connect,
    default_socket,
    readable,
    receive,
    send,
)
from scripts.build import registry
from scripts.cli.options import add_sim
from scripts.common import process
from scripts.common.arguments import REPEATED, SEVERAL, add_flags, seconds, up_to
from scripts.common.errors import BuildError, NfError
from scripts.common.memory_options import add_memory, memory_of
from scripts.common.paths import ROOT
from scripts.run.replay_simulators import Simulators
from verif.mem.memory_timing import MemoryTiming
from verif.replay.options import ReplayOptions, parse_parameters
from verif.serve.device_pool import DevicePool
from verif.serve.reducer_server import Listener, ReducerServer
from verif.serve.rtl_device import FallbackLimit, RtlDevice, place
from verif.serve.served_device import ModelDevice, ServedDevice

MODEL, RTL = "model", "rtl"
MOST_DEVICES = 8
"""Devices of a server: each is a simulator with its memory."""
TIMEOUT_S = 60.0
_ANSWER_S = 5.0
_DEFAULT = Path()  # no socket has this name
_LOOK_S, _END_S = 0.1, 30.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `nf serve`."""
    add = parser.add_argument
    add("--device", choices=(RTL, MODEL), default=RTL, help=f"device that reduces ({RTL})")
    add_sim(add, "simulator of the RTL")
    add("--workers", type=up_to(MAX_WORKERS), metavar="N", help="number of ranks of a training")
    what = f"devices that share the lines of a bucket, at most {MOST_DEVICES} (1)"
    add("--devices", type=up_to(MOST_DEVICES), default=1, metavar="D", help=what)
    what = "socket of the server (default: in a private folder)"
    add("--socket", type=Path, metavar="PATH", help=what)
    what = "another user whose ranks may join; they must list your uid in NF_ALLOW_UID"
    add("--allow-uid", **REPEATED, type=up_to((1 << 32) - 2, first=0), metavar="UID", help=what)
    what = "seconds that ranks wait for a rank (60)"
    add("--timeout", type=seconds, default=TIMEOUT_S, metavar="S", help=what)
    add("--param", **SEVERAL, metavar="NAME=N", help="RTL parameter")
    what = "RTL: raise FALLBACK above MISSES among the last WINDOW contributions (never)"
    add("--capacity", type=_capacity, metavar="MISSES/WINDOW", help=what)
    what = "send all lines of a rank before the next rank (default: interleaved)"
    add_flags(parser, apart=what)
    what = "print the status of the server at PATH"
    add("--status", type=Path, nargs="?", const=_DEFAULT, metavar="PATH", help=what)
    add_memory(parser, str(MemoryTiming().latency))


def _capacity(text: str) -> FallbackLimit:
    """Parse ``MISSES/WINDOW``, the limit of slot misses that raises FALLBACK (argparse type)."""
    misses, _, window = text.partition("/")
    if not all(one.isascii() and one.isdecimal() and len(one) < 6 for one in (misses, window)):
        raise argparse.ArgumentTypeError(f"{text!r} is not MISSES/WINDOW, as 16/64")
    try:
        return FallbackLimit(int(misses), int(window))
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or print the status of a server; return exit code 0.

    Raises:
        NfError: Options exclude each other, or the server cannot be started.
    """
    if args.status is not None:
        where = default_socket() if args.status == _DEFAULT else args.status
        say(*status(where, args.allow_uid))
        return 0
    if args.workers is None:
        raise NfError("give --workers N and --socket PATH, or --status PATH.")
    if args.allow_uid and args.socket is None:
        raise NfError("--allow-uid: nobody else can enter the default folder; name a --socket.")
    where = args.socket if args.socket is not None else default_socket()
    check_path(where)
    others = bool(args.allow_uid)
    with _device(args) as device, closing(Listener(where, others=others)) as listener:
        server = ReducerServer(listener, args.workers, device, args.timeout, _log, args.allow_uid)
        say(f"nf serve: {server.report()[0]}", flush=True)
        try:
            server.run()
        except KeyboardInterrupt:
            say("nf serve: ended")
    return 0


def status(path: Path, allowed: Collection[int] = ()) -> list[str]:
    """Return the lines of the status report of a running server.

    Args:
        path: Its socket.
        allowed: Numbers of other users that may own it.

    Raises:
        ServerError: It does not answer within 5 s, or refuses.
    """
    with connect(path, allowed) as sock:
        send(sock, StatusRequest())
        ready = readable(sock, _ANSWER_S)
        try:
            came = receive(sock) if ready else None
        except WireError as error:
            raise ServerError(path, error, "use the same version on both sides") from None
    close_all(came[1] if came is not None else ())
    if came is not None and isinstance(came[0], Refused):
        raise ServerError(path, "refused", came[0].why)
    if came is None or not isinstance(came[0], StatusReport):
        raise ServerError(path, f"no answer within {_ANSWER_S:g} s", "is the server stopped?")
    return list(came[0].lines)


@contextmanager
def served(device: str, sim: str, workers: int, devices: int = 1) -> Iterator[Path]:
    """Context in which a server runs in a separate process; the value is the path of its socket.

    Args:
        device: "rtl" or "model".
        sim: Simulator of the RTL.
        workers: Number of ranks.
        devices: Number of devices.

    Raises:
        NfError: It does not start; with its last line of output.
    """
    with tempfile.TemporaryDirectory(prefix="nf-serve-") as folder:
        path, output = Path(folder, "s"), Path(folder, "output.txt")
        words = ["serve", "--device", device, "--sim", sim, "--workers", str(workers)]
        words += ["--devices", str(devices), "--socket", str(path)]
        with output.open("wb") as stream:
            command = [sys.executable, "-m", "scripts.cli.main", *words]
            child = process.start(command, stream, cwd=ROOT, env=os.environ)
        try:
            with telling(f"nf serve: starting with {sim if device == RTL else 'the models'}"):
                while not _is_there(path):
                    if child.poll() is not None:
                        said = output.read_text(encoding="utf-8", errors="replace").splitlines()
                        raise NfError(
                            (said or ["nf serve ended without a message."])[-1].removeprefix("nf: ")
                        )
                    time.sleep(_LOOK_S)
            yield path
        finally:
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                child.wait(_END_S)
            child.kill()
            child.wait()


def _is_there(path: Path) -> bool:
    """Return whether a server answers at the socket."""
    try:
        return bool(status(path))
    except ServerError:
        return False


@contextmanager
def _device(args: argparse.Namespace) -> Iterator[ServedDevice]:
    """Context of the device that reduces, models or RTL in a simulator, made from the options.

    Options are checked before anything is built.
    """
    try:
        options = ReplayOptions(
            parameters=parse_parameters(args.param), memory=memory_of(args, args.memory_latency)
        )
        place(options.device, args.workers)
    except CaptureError as error:
        raise NfError(f"{error}.") from None
    if args.device == MODEL:
        if args.capacity is not None:
            raise NfError("--capacity: the models count no misses; leave out --device model.")
        if args.apart:
            raise NfError("--apart: the models know no order; leave out --device model.")
        yield DevicePool([ModelDevice(options.device) for _ in range(args.devices)])
        return
    registry.choose(args.sim)
    simulators = Simulators(command="nf serve")
    folder = simulators.workspace(f"serve-{args.sim}")
    try:
        model = simulators.bulk(args.sim, options.parameters)
    except BuildError as error:
        raise NfError(f"the RTL does not compile: {error}.") from None
    with ExitStack() as stack:
        devices: list[ServedDevice] = []
        for number in range(args.devices):
            own = folder / f"device{number}"
            own.mkdir(exist_ok=True)
            rtl = RtlDevice(model, own, args.sim, args.workers, options, args.capacity, args.apart)
            devices.append(stack.enter_context(closing(rtl)))
        yield DevicePool(devices)


def _log(line: str) -> None:
    """Print a line of the server's log, with the time, to stderr."""
    say(f"nf serve: {time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)

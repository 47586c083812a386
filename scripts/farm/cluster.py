# SPDX-License-Identifier: Apache-2.0
"""Runs on many machines: an existing Dask scheduler, or one started on a batch system.

`Farm.run` has the signature of `simulate.run`, so `schedule.run_all` uses either. The design is
built once, on this machine; build and sources go to the workers as bundles through the scheduler;
record and files of a run return as its result. A worker needs the pinned requirements, but no
checkout. Dask reschedules the runs of a worker that dies.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import logging
import os
import pickle
import re
import shutil
import signal
import sys
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuron_fabric.data import DataError, as_object, parse_json, read_text
from neuron_fabric.errors import say
from scripts.build import registry
from scripts.build.build_cache import build
from scripts.common import folder_locks, process
from scripts.common.errors import BuildError, NfError, why_of
from scripts.common.paths import BUILD, ROOT, RUNS, SIM_BUILDS, shown
from scripts.common.records import BuildSpec, RunRecord, RunSpec
from scripts.coverage import run_counts
from scripts.farm import bundle
from scripts.farm.bundle import Bundle
from scripts.farm.work import CocotbRun, Work, not_run, versions
from scripts.run import run_folders, shrink_stimulus, simulate

if TYPE_CHECKING:
    from distributed import Client

# Class of dask_jobqueue, and its submit command.
BATCH = {
    "slurm": ("SLURMCluster", "sbatch"),
    "lsf": ("LSFCluster", "bsub"),
    "pbs": ("PBSCluster", "qsub"),
}
HELP = f"address of a Dask scheduler, or a batch system: {', '.join(BATCH)}"
_ADDRESS = re.compile(r"((tcp|tls|wss?)://)?[^\s/]+:\d{1,5}(/\S*)?")
_CONNECT_S = 10
_WORKERS_S = 60
_BATCH_JOBS = 4
_HERE_ALONE = "127.0.0.1:0"  # any port
_TRACE = "NF_LINK_TRACE"
_MEMORY = "2 GiB"  # default memory of a batch job


class Farm:
    """Workers of a Dask scheduler, as an executor of runs; `slots` runs are active at a time."""

    def __init__(
        self, client: Client, slots: int, runs: Path | None = None, builds: Path = SIM_BUILDS
    ) -> None:
        import cloudpickle

        from scripts.farm import dask_worker as worker

        for module in (worker, bundle):  # pickle by value: workers have no checkout
            cloudpickle.register_pickle_by_value(module)
        self.slots = slots
        self._client = client
        self._executor = client.get_executor(pure=False)
        self.runs, self.builds = runs or folder_locks.folder(RUNS), builds
        self._name = f"nf-{uuid.uuid4().hex[:8]}"
        self._plugins = [self._name]
        self._futures: set[Future[Any]] = set()
        self._ended = threading.Event()
        self._once: defaultdict[object, threading.Lock] = defaultdict(threading.Lock)
        self._bundles: dict[object, str] = {}
        self._compilers = threading.Semaphore(process.cores())
        client.register_plugin(worker.Session(), name=self._name)

    def run(self, spec: RunSpec) -> RunRecord:
        """Build the design here, run on a worker, and return the record; the files are copied here.

        A failing test does not raise, as in `simulate.run`.

        Raises:
            Interrupted: `end` was called.
        """
        try:
            build = self._ship(spec.build, lambda: self._build(spec.build))
        except BuildError:
            return simulate.run(spec, self.runs, self.builds)  # it reports the failed build
        return self._ask(spec, CocotbRun(), build, self.runs)

    def send(self, spec: RunSpec, work: Work, build: Path | None, runs: Path) -> RunRecord:
        """Do a piece of work on a worker, and copy its files to a folder below ``runs``.

        Args:
            spec: Names the run and its design.
            work: Object whose `run` the worker calls.
            build: Folder of a finished build that the work needs; None for none.
            runs: Parent of the run folder.

        Returns:
            The record; an infrastructure failure if no worker could do it.
        """
        shipped = "" if build is None else self._ship(build, lambda: bundle.of_build(build))
        return self._ask(spec, work, shipped, runs)

    def _ask(self, spec: RunSpec, work: Work, build: str, runs: Path) -> RunRecord:
        try:
            request = {
                "spec": spec.to_json(),
                "versions": versions(),
                "inputs": inputs(spec),
                "sources": self._sources(ROOT),
                "root": "" if spec.build.root == ROOT else self._sources(spec.build.root),
                "build": build,
            }
            text, files = self._submit(request, pickle.dumps(work))
        except NfError as error:
            return not_run(spec, str(error), runs)
        except CancelledError as error:
            raise process.Interrupted from error
        except Exception as error:
            cause = f"no worker could run it: {type(error).__name__}: {error}"
            return not_run(spec, cause, runs)
        try:
            return self._bring_back(spec, text, files, runs)
        except (bundle.BundleError, DataError, OSError) as error:
            return not_run(spec, f"the answer of a worker is refused: {error}", runs)

    def end(self) -> None:
        """Cancel every run, here and on the workers."""
        self._ended.set()
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        process.kill_all()
        for future in list(self._futures):
            future.cancel()

    def resume(self) -> None:
        """Accept runs again after `end`, for the next round of `nf run --watch`.

        The server processes on the workers are replaced, because a cancelled run continues in them
        and writes to its run folder.
        """
        from scripts.farm import dask_worker as worker

        if self._ended.is_set():
            self._client.unregister_worker_plugin(self._name)
            self._client.register_plugin(worker.Session(), name=self._name)
            self._ended.clear()

    def close(self) -> None:
        """Remove servers and bundles from the workers."""
        for name in self._plugins:
            with suppress(Exception):  # the scheduler may be gone
                self._client.unregister_worker_plugin(name)

    def _submit(self, request: dict[str, Any], work: bytes) -> tuple[str, bytes]:
        from scripts.farm.dask_worker import run

        name = self._name
        # A local function is pickled by value, together with `run`.
        future = self._executor.submit(lambda: run(name, request, work))
        self._futures.add(future)
        if self._ended.is_set():
            future.cancel()
        try:
            result: tuple[str, bytes] = future.result()
        finally:
            self._futures.discard(future)
        return result

    def _ship(self, what: object, make: Callable[[], Bundle]) -> str:
        """Make a bundle and send it to all workers, once for each ``what``; return its digest."""
        from scripts.farm.dask_worker import Unpack

        with self._once[what]:
            if what not in self._bundles:
                made = make()
                name = f"{self._name}-{made.digest}"
                self._client.register_plugin(Unpack(made.digest, made.data), name=name)
                self._plugins.append(name)
                self._bundles[what] = made.digest
            return self._bundles[what]

    def _sources(self, root: Path) -> str:
        return self._ship(root, lambda: bundle.of_sources(root))

    def _build(self, spec: BuildSpec) -> Bundle:
        with self._compilers:
            return bundle.of_build(build(spec, self.builds).directory)

    def _bring_back(self, spec: RunSpec, text: str, files: bytes, runs: Path) -> RunRecord:
        record = RunRecord.from_json(as_object(parse_json(text)))
        folder = runs / spec.id
        run_folders.empty(folder)
        bundle.unpack(files, folder)
        run_counts.adopt(folder)

        def here(path: str) -> str:
            """Return the local path of a file in the run folder."""
            return shown(folder / Path(path).name)

        record = replace(
            record,
            log=here(record.log),
            waves=record.waves and here(record.waves),
            coverage=record.coverage and here(record.coverage),
            stimulus=tuple(map(here, record.stimulus)),
        )
        if (folder / "record.json").is_file():  # written by the worker, with its paths
            simulate.save(record, folder)
        return record


def inputs(spec: RunSpec) -> dict[str, tuple[str, str]]:
    """Return (file name, text) of each input file of a run, by the variable that holds its path.

    Raises:
        NfError: A file cannot be read.
    """
    found: dict[str, tuple[str, str]] = {}
    for variable, value in spec.env:
        is_file = os.path.isabs(value) and os.path.isfile(value)
        if value and (variable == shrink_stimulus.VARIABLE or is_file):
            try:
                found[variable] = (Path(value).name, read_text(value))
            except (OSError, DataError) as error:
                why = why_of(error)
                raise NfError(f"{variable}: {value}: {why}; it cannot go to a worker.") from error
    return found


def if_named(where: str | None, jobs: int | None = None) -> AbstractContextManager[Farm | None]:
    """Return the context of `connect`, or one without a farm if `--cluster` is not given."""
    return nullcontext() if where is None else connect(where, jobs)


@contextmanager
def connect(where: str, jobs: int | None = None) -> Iterator[Farm]:
    """Context of a `Farm` on a Dask scheduler, which may be started on a batch system.

    Args:
        where: Address of the scheduler, or a key of `BATCH`.
        jobs: Runs handed out at a time (twice the threads of the workers); on a batch system also
            the number of batch jobs.

    Raises:
        NfError: No worker can be reached; one line.
    """
    # Dask prints a traceback after 20 s for an address that it cannot parse.
    if where not in BATCH and not _ADDRESS.fullmatch(where):
        raise NfError(f"--cluster {where!r}: write tcp://HOST:PORT, or one of {', '.join(BATCH)}.")
    _check_variables(where)
    if importlib.util.find_spec("distributed") is None:
        raise NfError(f"--cluster {where}: Dask is not installed: `make cluster`.")
    if where.startswith(("tls", "wss")):
        if not _configured():
            raise NfError(
                f"--cluster {where}: Dask's configuration names no key (distributed.comm.tls)."
            )
    elif where not in BATCH:
        _warn_of_plain(where)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with ExitStack() as stack:
        place: Any = where
        if where in BATCH:
            place = _batch(where, jobs or _BATCH_JOBS)
            stack.callback(_end, place)
        try:
            client = _client(place)
        # MemoryError: the answer of another protocol can be read as a huge length.
        except (OSError, TimeoutError, ValueError, MemoryError) as error:
            cause = str(error) or f"silent for {2 * _CONNECT_S} s"
            raise NfError(
                f"--cluster {where}: no Dask scheduler answers there ({cause})."
            ) from error
        stack.callback(client.close)
        try:
            client.wait_for_workers(1, timeout=_WORKERS_S)
        except TimeoutError as error:
            raise NfError(f"--cluster {where}: no worker came in {_WORKERS_S} s.") from error
        # Twice the threads, so that no worker waits for this machine.
        farm = Farm(client, jobs or 2 * sum(client.nthreads().values()))
        stack.callback(farm.close)
        yield farm


def _end(batch: Any) -> None:
    """Cancel the batch jobs and remove the key files that dask-jobqueue leaves."""
    batch.close()
    for name in ("_job_ca_file", "_job_cert", "_job_key"):
        file = getattr(batch, name, None)
        if file is not None:
            file.close()  # deletes a temporary file


def _client(where: Any) -> Client:
    """Return a Dask client of a scheduler's address or of a cluster object.

    Raises:
        OSError, TimeoutError, ValueError: It does not answer in time.
    """
    from distributed import Client, Security
    from distributed.comm import connect as greet

    async def greeting() -> None:
        arguments = Security().get_connection_args("client")
        comm = await greet(where, timeout=_CONNECT_S, **arguments)
        await comm.close()

    async def answers() -> None:
        await asyncio.wait_for(greeting(), 2 * _CONNECT_S)

    # Dask's own time-out does not cover a peer that accepts the connection and stays silent, and
    # the destructor of a client that failed can block the garbage collector.
    if isinstance(where, str):
        asyncio.run(answers())
    return Client(where, timeout=_CONNECT_S, set_as_default=False)


def _check_variables(where: str) -> None:
    """Raise NfError for a variable that names something of this machine alone."""
    if os.environ.get(_TRACE, "0") not in ("", "0"):
        raise NfError(
            f"--cluster {where}: workers do not write to {_TRACE}={os.environ[_TRACE]}; unset it "
            "(`nf run --link-trace` brings link.trace back)."
        )
    for name in (simulator.variable for simulator in registry.simulators()):
        if os.environ.get(name):
            raise NfError(f"--cluster {where}: workers use their own simulators; unset {name}.")


def _configured() -> bool:
    """Return whether Dask's configuration names a key and certificates for TLS."""
    from distributed import Security

    return bool(Security().get_connection_args("client").get("ssl_context"))


@functools.cache  # once per command: --watch connects again
def _warn_of_plain(where: str) -> None:
    say(
        f"nf: --cluster {where}: without TLS, everybody who reaches that scheduler can run code on "
        "its workers. With certificates in Dask's configuration (distributed.comm.tls): tls://HOST:PORT.",
        file=sys.stderr,
    )


def _batch(name: str, jobs: int) -> Any:
    """Start a Dask cluster whose workers are jobs of a batch system.

    A job has one core unless Dask's configuration (`jobqueue.slurm`..) says otherwise. Scheduler,
    workers and this process use TLS, with the certificates of Dask's configuration or temporary
    ones. Dashboards listen on the loopback interface only.
    """
    import dask
    from distributed import Security

    ours = signal.getsignal(signal.SIGINT)
    import dask_jobqueue  # the import installs a handler for Ctrl-C

    signal.signal(signal.SIGINT, ours)

    kind, command = BATCH[name]
    if shutil.which(command) is None:
        raise NfError(f"--cluster {name}: this machine has no `{command}`.")
    settings = {"cores": 1, "memory": _MEMORY, "processes": 1}
    given = {key: dask.config.get(f"jobqueue.{name}.{key}", None) for key in settings}
    extra = dask.config.get(f"jobqueue.{name}.worker-extra-args", None) or []
    keys = dask.config.get(f"jobqueue.{name}.shared-temp-directory", None)
    try:
        if keys is None:  # a folder that the jobs can read
            keys = BUILD / "cluster"
            keys.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = getattr(dask_jobqueue, kind)(
            **{key: given[key] or value for key, value in settings.items()},
            security=Security() if _configured() else Security.temporary(),
            shared_temp_directory=str(keys),
            scheduler_options={"dashboard_address": _HERE_ALONE},
            worker_extra_args=[*extra, "--dashboard-address", _HERE_ALONE],
        )
        made.scale(jobs=jobs)
    except (OSError, RuntimeError, ValueError) as error:
        raise NfError(f"--cluster {name}: {str(error).splitlines()[0]}") from error
    return made

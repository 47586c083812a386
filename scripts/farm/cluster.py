# SPDX-License-Identifier: Apache-2.0
"""Runs on many machines, through a Dask scheduler that is there, or one started on a batch system.

`Farm.run` has the signature of `simulate.run`, so `schedule.run_all` does with it what it does on
one machine. The design is built here, once; the build and the sources go to the workers as bundles
through the scheduler; record and files of a run come back as its result. A worker needs the pinned
requirements and no checkout. Dask gives the runs of a worker that dies to another one.
"""

from __future__ import annotations

import functools
import importlib.util
import logging
import os
import re
import shutil
import signal
import sys
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuron_fabric.data import DataError, as_object, parse_json, read_text
from neuron_fabric.errors import say
from scripts.build.build_cache import build
from scripts.common import process, run_folders
from scripts.common.errors import BuildError, NfError
from scripts.common.paths import BUILD, ROOT, RUNS, SIM_BUILDS, shown
from scripts.common.records import BuildSpec, RunRecord, RunSpec
from scripts.coverage import run_counts
from scripts.farm import bundle, remote
from scripts.farm.bundle import Bundle
from scripts.prove import proving
from scripts.run import evidence, reduction, simulate

if TYPE_CHECKING:
    from distributed import Client

# Class of dask_jobqueue, and the command that it submits with.
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
_MEMORY = "2 GiB"  # of a batch job of one core, where Dask's configuration says nothing


class Farm:
    """The workers of a Dask scheduler as a place to run on."""

    def __init__(
        self, client: Client, slots: int, runs: Path | None = None, builds: Path = SIM_BUILDS
    ) -> None:
        import cloudpickle

        from scripts.farm import dask_worker as worker

        for module in (worker, bundle):  # workers have no checkout to import them from
            cloudpickle.register_pickle_by_value(module)
        self.slots = slots
        self._client = client
        self._executor = client.get_executor(pure=False)
        self.runs, self.builds = runs or run_folders.folder(RUNS), builds
        self._name = f"nf-{uuid.uuid4().hex[:8]}"
        self._plugins = [self._name]
        self._futures: set[Future[Any]] = set()
        self._ended = threading.Event()
        self._once: defaultdict[object, threading.Lock] = defaultdict(threading.Lock)
        self._bundles: dict[object, str] = {}
        self._compilers = threading.Semaphore(process.cores())
        client.register_plugin(worker.Session(), name=self._name)

    def run(self, spec: RunSpec) -> RunRecord:
        """Build here, run on a worker, bring everything back. As `simulate.run`, never raises for
        a failing test; raises Interrupted after `end`."""
        try:
            build = self._ship(spec.build, lambda: self._build(spec.build))
        except BuildError:
            return simulate.run(spec, self.runs, self.builds)  # which tells it as ever
        return self._ask(spec, build, None, self.runs)

    def send(self, spec: RunSpec, build: Path, parcel: bytes, runs: Path) -> RunRecord:
        """A piece of a replay (see `scripts.farm.pieces`): ``parcel`` and a finished build go to a
        worker, what it leaves comes to the run's folder below ``runs``. As `run`."""
        shipped = self._ship(build, lambda: bundle.of_build(build))
        return self._ask(spec, shipped, parcel, runs)

    def prove(self, spec: RunSpec, parcel: bytes, runs: Path) -> RunRecord:
        """A proof (see `scripts.farm.proof_run`), for which nothing is built. As `run`."""
        return self._ask(spec, "", parcel, runs, proving.not_tried)

    def _ask(
        self,
        spec: RunSpec,
        build: str,
        parcel: bytes | None,
        runs: Path,
        not_run: Callable[[RunSpec, str, Path], RunRecord] = simulate.infrastructure,
    ) -> RunRecord:
        try:
            request = {
                "spec": spec.to_json(),
                "versions": remote.versions(),
                "inputs": inputs(spec),
                "sources": self._ship(ROOT, lambda: bundle.of_sources(ROOT)),
                "root": self._root(spec.build.root),
                "build": build,
            }
            text, files = self._submit(request, parcel)
        except (NfError, bundle.BundleError) as error:
            return not_run(spec, str(error), runs)
        except CancelledError as error:
            raise process.Interrupted from error
        except Exception as error:
            cause = f"no worker could run it: {type(error).__name__}: {error}"
            return not_run(spec, cause, runs)
        try:
            return self._bring_back(spec, text, files, runs)
        except (bundle.BundleError, DataError, OSError) as error:
            cause = f"what a worker sent back is refused: {error}"
            return not_run(spec, cause, runs)

    def end(self) -> None:
        """End every run, wherever it is."""
        self._ended.set()
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        process.kill_all()
        for future in list(self._futures):
            future.cancel()

    def resume(self) -> None:
        """Take runs again after `end`: --fail-fast ends a round of --watch, and the next follows.
        The servers go first: a run that was cancelled goes on in them, in its run's folder."""
        from scripts.farm import dask_worker as worker

        if self._ended.is_set():
            self._client.unregister_worker_plugin(self._name)
            self._client.register_plugin(worker.Session(), name=self._name)
            self._ended.clear()

    def close(self) -> None:
        """Take the servers and the bundles off the workers."""
        for name in self._plugins:
            with suppress(Exception):  # the scheduler may be gone
                self._client.unregister_worker_plugin(name)

    def _submit(self, request: dict[str, Any], parcel: bytes | None) -> tuple[str, bytes]:
        from scripts.farm.dask_worker import run

        name = self._name
        # A function made here travels by value, and takes `run` along.
        future = self._executor.submit(lambda: run(name, request, parcel))
        self._futures.add(future)
        if self._ended.is_set():
            future.cancel()
        try:
            result: tuple[str, bytes] = future.result()
        finally:
            self._futures.discard(future)
        return result

    def _ship(self, what: object, make: Callable[[], Bundle]) -> str:
        """Digest of a bundle that every worker has or will get; made and sent once."""
        from scripts.farm.dask_worker import Unpack

        with self._once[what]:
            if what not in self._bundles:
                made = make()
                name = f"{self._name}-{made.digest}"
                self._client.register_plugin(Unpack(made.digest, made.data), name=name)
                self._plugins.append(name)
                self._bundles[what] = made.digest
            return self._bundles[what]

    def _root(self, root: Path) -> str:
        return "" if root == ROOT else self._ship(root, lambda: bundle.of_sources(root))

    def _build(self, spec: BuildSpec) -> Bundle:
        with self._compilers:
            return bundle.of_build(build(spec, self.builds).directory)

    def _bring_back(self, spec: RunSpec, text: str, files: bytes, runs: Path) -> RunRecord:
        record = RunRecord.from_json(as_object(parse_json(text)))
        folder = runs / spec.id
        evidence.empty(folder)
        bundle.unpack(files, folder)
        run_counts.adopt(folder)

        def here(path: str | None) -> str | None:
            """A file of the run's folder, as it is called on this machine."""
            return path and shown(folder / Path(path).name)

        record = replace(
            record,
            log=str(here(record.log)),
            waves=here(record.waves),
            coverage=here(record.coverage),
            stimulus=tuple(shown(folder / Path(path).name) for path in record.stimulus),
        )
        if (folder / "record.json").is_file():  # the worker's, with its paths
            simulate.save(record, folder)
        return record


def inputs(spec: RunSpec) -> dict[str, tuple[str, str]]:
    """Return what a run reads by its variables: name and text of a file by variable. A worker has
    no such file. NfError for one that cannot be sent."""
    found: dict[str, tuple[str, str]] = {}
    for variable, value in spec.env:
        is_file = os.path.isabs(value) and os.path.isfile(value)
        if value and (variable == reduction.VARIABLE or is_file):
            try:
                found[variable] = (Path(value).name, read_text(value))
            except (OSError, DataError) as error:
                why = error.strerror if isinstance(error, OSError) else error
                raise NfError(f"{variable}: {value}: {why}; it cannot go to a worker.") from error
    return found


@contextmanager
def connect(where: str, jobs: int | None = None) -> Iterator[Farm]:
    """A farm at a scheduler's address or on a batch system. `jobs` is the number of runs handed out
    at once; on a batch system also that of the jobs asked for. Raises NfError in one line."""
    # What Client does not understand it closes with a traceback, 20 s later.
    if where not in BATCH and not _ADDRESS.fullmatch(where):
        raise NfError(f"--cluster {where!r}: write tcp://HOST:PORT, or one of {', '.join(BATCH)}.")
    if os.environ.get(_TRACE, "0") not in ("", "0"):
        raise NfError(
            f"--cluster {where}: workers do not write to {_TRACE}={os.environ[_TRACE]}; unset it "
            "(`nf run --link-trace` brings link.trace back)."
        )
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
    batch = _batch(where, jobs or _BATCH_JOBS) if where in BATCH else None
    try:
        client = _client(batch or where)
    # MemoryError: what a peer says that speaks another language can be read as a huge length.
    except (OSError, TimeoutError, ValueError, MemoryError) as error:
        if batch is not None:
            _end(batch)
        cause = str(error) or f"silent for {2 * _CONNECT_S} s"
        raise NfError(f"--cluster {where}: no Dask scheduler answers there ({cause}).") from error
    try:
        try:
            client.wait_for_workers(1, timeout=_WORKERS_S)
        except TimeoutError as error:
            raise NfError(f"--cluster {where}: no worker came in {_WORKERS_S} s.") from error
        # Twice what the workers can do, so that none waits for this machine.
        farm = Farm(client, jobs or 2 * sum(client.nthreads().values()))
        try:
            yield farm
        finally:
            farm.close()
    finally:
        client.close()
        if batch is not None:
            _end(batch)


def _end(batch: Any) -> None:
    """Cancel the jobs and remove the files with their key, which dask-jobqueue leaves behind."""
    batch.close()
    for name in ("_job_ca_file", "_job_cert", "_job_key"):
        file = getattr(batch, name, None)
        if file is not None:
            file.close()  # a temporary one: this deletes it


def _client(where: Any) -> Client:
    """A connection; OSError, TimeoutError or ValueError when none comes about in time."""
    from distributed import Client

    class Quiet(Client):  # type: ignore[misc]
        """One that never came up is collected at any moment. Closing it there takes the lock of
        Dask's loops, which the same thread may hold: it would wait for itself, for ever."""

        def __del__(self) -> None:
            """Nothing: what came up, `connect` closes; else the loop ends with this process."""

    came: Future[Client] = Future()

    def connect() -> None:
        try:
            came.set_result(Quiet(where, timeout=_CONNECT_S, set_as_default=False))
        except BaseException as error:
            came.set_exception(error)

    # Dask's own limit does not see a peer that takes the connection and never speaks.
    threading.Thread(target=connect, daemon=True).start()
    return came.result(timeout=2 * _CONNECT_S)


def _configured() -> bool:
    """Whether Dask's configuration names a key and certificates for TLS."""
    from distributed import Security

    return bool(Security().get_connection_args("client").get("ssl_context"))


@functools.cache  # once a command: --watch connects again
def _warn_of_plain(where: str) -> None:
    say(
        f"nf: --cluster {where}: without TLS, whoever reaches that scheduler runs code on its "
        "workers. With certificates in Dask's configuration (distributed.comm.tls): tls://HOST:PORT.",
        file=sys.stderr,
    )


def _batch(name: str, jobs: int) -> Any:
    """A Dask cluster whose workers are jobs of a batch system, one core each unless Dask's own
    configuration (`jobqueue.slurm`..) says more about them.

    Scheduler, workers and this process speak TLS, with the certificates of Dask's configuration or
    with some made for this run; the pages that Dask offers to browsers stay on their machine.
    """
    import dask
    from distributed import Security

    ours = signal.getsignal(signal.SIGINT)
    import dask_jobqueue  # it takes Ctrl-C for itself

    signal.signal(signal.SIGINT, ours)

    kind, command = BATCH[name]
    if shutil.which(command) is None:
        raise NfError(f"--cluster {name}: this machine has no `{command}`.")
    settings = {"cores": 1, "memory": _MEMORY, "processes": 1}
    given = {key: dask.config.get(f"jobqueue.{name}.{key}", None) for key in settings}
    extra = dask.config.get(f"jobqueue.{name}.worker-extra-args", None) or []
    keys = dask.config.get(f"jobqueue.{name}.shared-temp-directory", None)
    try:
        if keys is None:  # the jobs read them there, as they read everything of this folder
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

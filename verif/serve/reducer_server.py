# SPDX-License-Identifier: Apache-2.0
"""Reducer server: its event loop, its socket, and the thread of its device.

One thread waits for connections, sessions, the device and deadlines; the device works in another.
`job_session` decides the outcome of buckets. One job is served at a time. An exception caused by a
message of a peer ends that peer and its session, as its death would. The loop never waits for a
peer.
"""

import errno
import os
import queue
import selectors
import socket
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from neuron_fabric.lock import Busy, Lock
from neuron_fabric.reducers import server_wire as wire
from neuron_fabric.reducers.server_wire import peer_of
from neuron_fabric.reducers.shared_lines import Word
from verif.serve.job_session import JobSession, RefusedOne
from verif.serve.served_bucket import MODES, Counts, Refusal, ServedBucket
from verif.serve.served_device import DeviceError, DeviceLost, ServedDevice

BACKLOG = 128
LOOK_S = 1.0
STUCK = "the device takes too long"
_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
Say = Callable[[str], None]


@dataclass
class _Peer:
    """Connection to a process, and the session and rank of its HELLO (none before it)."""

    sock: socket.socket
    who: str
    session: JobSession | None = None
    rank: int = -1


class Listener:
    """Listening Unix socket of a server, with a lock; the file of a dead server is replaced."""

    def __init__(self, path: Path, *, others: bool = False) -> None:
        """Create the socket and listen.

        Args:
            path: Path of the socket.
            others: Let other users connect; they get an answer if they may not join.

        Raises:
            ServerError: No socket can be made, another server has it, or another file is there.
        """
        wire.check_path(path)
        self.path, other = path, "choose another --socket"
        self._lock = Lock(path)
        with ExitStack() as undo:
            try:
                undo.callback(self._lock.acquire().release)
                self._clear(other)
                self.sock = wire.new_socket()
                undo.callback(self.sock.close)
                old = os.umask(0o111 if others else 0o177)
                try:
                    self.sock.bind(os.fspath(path))
                finally:
                    os.umask(old)
                self.sock.listen(BACKLOG)
            except Busy as busy:
                raise wire.ServerError(path, f"another server is there, {busy}", other) from None
            except OSError as error:
                raise wire.ServerError(path, f"cannot be made ({error.strerror})", other) from None
            self.sock.setblocking(False)
            undo.pop_all()

    def _clear(self, other: str) -> None:
        """Remove the socket file of a dead server, if there is one; the caller holds the lock."""
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise wire.ServerError(self.path, "something else than a socket is there", other)
        self.path.unlink()

    def close(self) -> None:
        """Close the socket, remove its file and release the lock."""
        self.sock.close()
        self.path.unlink(missing_ok=True)
        self._lock.release()


@dataclass(frozen=True)
class Finished:
    """Outcome of a bucket from the device.

    Attributes:
        owner: Session of the bucket, as passed to `DeviceThread.put`.
        seq: Number of the bucket in its job.
        word: Outcome: DONE, LOST or REFUSED.
        why: Reason in one line, "" for DONE.
        counters: Counters of the device.
    """

    owner: Any
    seq: int
    word: Word
    why: str
    counters: dict[str, int]


class DeviceThread:
    """Thread in which the device of a server reduces buckets, one at a time.

    `put` queues buckets, `finished` returns outcomes. `wake` is a file descriptor that becomes
    readable when a bucket is finished.
    """

    def __init__(self, device: ServedDevice, timeout_s: float) -> None:
        """Start the thread.

        Args:
            device: Device, closed by `close`.
            timeout_s: Seconds beyond the device's own limit after which a bucket is abandoned.
        """
        self.device, self._timeout_s = device, timeout_s
        self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._todo: queue.SimpleQueue[tuple[Any, ServedBucket] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[Finished] = queue.SimpleQueue()
        self.until: float | None = None
        """Time at which the bucket in progress exceeds its limit; None for no bucket."""
        self.stuck = False
        """Return True if the bucket in progress exceeded its limit and has not ended."""
        # A daemon thread: a hanging simulator must not keep the server from ending.
        self._thread = threading.Thread(target=self._run, name="nf serve device", daemon=True)
        self._thread.start()

    def put(self, owner: Any, bucket: ServedBucket) -> None:
        """Queue a bucket; `owner` is returned with its outcome."""
        self._todo.put((owner, bucket))

    def finished(self) -> Iterator[Finished]:
        """Yield the outcomes since the last call; never wait."""
        with suppress(BlockingIOError):
            os.eventfd_read(self.wake)
        while not self._done.empty():  # this is the only consumer
            yield self._done.get_nowait()

    def expire(self, now: float) -> bool:
        """Interrupt the device if the bucket in progress has exceeded its limit.

        Returns:
            True if the limit was exceeded since the last call.
        """
        if self.until is None or now < self.until:
            return False
        self.until, self.stuck = None, True
        self.device.interrupt()
        return True

    def close(self, wait_s: float = 10.0) -> None:
        """End the thread and close the device; interrupt a device that is still at work.

        A device that does not end within `wait_s` seconds is left.
        """
        self._todo.put(None)
        self._thread.join(0.2)
        if self._thread.is_alive():
            self.device.interrupt()
            self._thread.join(wait_s)
        if not self._thread.is_alive():
            self.device.close()
            os.close(self.wake)

    def _run(self) -> None:
        while (item := self._todo.get()) is not None:
            owner, bucket = item
            word, why, counts = Word.DONE, "", Counts()
            try:
                self.until = time.monotonic() + self._timeout_s + self.device.seconds(bucket)
                counts = self.device.reduce(bucket)
            except DeviceLost as lost:
                word, why = Word.LOST, str(lost)
            except DeviceError as error:
                word, why = Word.REFUSED, str(error)
            except Exception as error:  # a bug in this program
                word, why = Word.REFUSED, f"{type(error).__name__}: {error}"
            self.until, self.stuck = None, False
            counters = asdict(counts)
            if word == Word.DONE:
                counters |= {"lines": bucket.lines, "contributions": bucket.contributions}
            self._done.put(Finished(owner, bucket.seq, word, why, counters))
            os.eventfd_write(self.wake, 1)


class ReducerServer:
    """Server that reduces the buckets of one job of ``workers`` ranks at a time."""

    def __init__(
        self,
        listener: Listener,
        workers: int,
        device: ServedDevice,
        timeout_s: float,
        say: Say,
        allowed: Collection[int] = (),
    ) -> None:
        """Prepare the event loop and start the thread of the device.

        Args:
            listener: Open socket, closed at the end.
            workers: Number of ranks of a job.
            device: Device, closed at the end.
            timeout_s: Seconds that ranks wait for a late rank.
            say: Function that prints a line of the log.
            allowed: Numbers of other users that may join.
        """
        self._users = {os.getuid(), *allowed}
        self._deaf_until = 0.0
        self._listener, self._workers, self._timeout_s = listener, workers, timeout_s
        self._say, self._start, self._stopped = say, time.monotonic(), False
        self._device = DeviceThread(device, timeout_s)
        self._name = device.name
        self._welcome = wire.Welcome(
            {"name": device.name, **device.params.as_rtl(), "workers": workers}, tuple(MODES)
        )
        self._peers: dict[int, _Peer] = {}
        self._session: JobSession | None = None
        self._jobs, self._refused = 0, ("", "")
        self._before: Counter[str] = Counter()
        self._select = selectors.DefaultSelector()
        self._select.register(listener.sock, selectors.EVENT_READ)
        self._select.register(self._device.wake, selectors.EVENT_READ)

    def run(self) -> None:
        """Serve until `stop` or an exception; then release all resources."""
        try:
            while not self._stopped:
                try:
                    self._turn()
                except Exception as error:
                    self._abandon(error)
        finally:
            self._close()

    def _turn(self) -> None:
        for key, _ in self._select.select(self._wait_s()):
            if key.fd == self._listener.sock.fileno():
                self._accept()
            elif key.fd == self._device.wake:
                self._finished()
            elif key.fd in self._peers:
                self._hear(self._peers[key.fd])
        self._listen_again()
        self._expire()

    def stop(self) -> None:
        """Make `run` return soon; callable from any thread or signal handler."""
        self._stopped = True

    def report(self) -> list[str]:
        """Return lines of text on the state of the server and its jobs, for `nf serve --status`."""
        up = time.monotonic() - self._start
        lines = [
            f"{self._name} for {self._workers} workers at {self._listener.path}, up {up:,.0f} s, "
            f"{self._jobs} jobs, time-out {self._timeout_s:g} s"
        ]
        lines += self._session.told() if self._session is not None else ["no job"]
        if tally := self._before:
            lines.append(
                f"jobs that have ended: {tally['DONE']:,} buckets done, {tally['LOST']} lost, "
                f"{tally['lines']:,} lines a worker, {tally['cycles']:,} cycles of the device"
            )
        return lines

    # -- connections ------------------------------------------------------------------------------
    def _accept(self) -> None:
        try:
            sock, _ = self._listener.sock.accept()
        except OSError as error:  # the peer is gone, or there are too many files
            if error.errno in _FULL:  # pause: the socket would be readable again at once
                self._say(f"no connection can be taken ({error.strerror})")
                self._select.unregister(self._listener.sock)
                self._deaf_until = time.monotonic() + LOOK_S
            return
        sock.setblocking(False)
        pid, uid = peer_of(sock)
        peer = _Peer(sock, f"process {pid}")
        self._peers[sock.fileno()] = peer
        self._select.register(sock, selectors.EVENT_READ)
        if uid not in self._users:
            what = f"the server is of user {os.getuid()}, and you are {uid}"
            self._refuse(peer, f"{what}; start one of your own, or nf serve --allow-uid {uid}")

    def _listen_again(self) -> None:
        if self._deaf_until and time.monotonic() >= self._deaf_until:
            self._deaf_until = 0.0
            self._select.register(self._listener.sock, selectors.EVENT_READ)

    def _hear(self, peer: _Peer) -> None:
        try:
            came = wire.receive(peer.sock)
            if came is None:
                self._drop(peer)
            else:
                wire.close_all(came[1])  # the protocol sends no files to the server
                self._answer(peer, came[0])
        except BlockingIOError:
            pass
        except wire.OtherVersion as error:
            self._refuse(peer, f"{error}; use the same version of neuron_fabric on both sides")
        except (wire.WireError, RefusedOne) as error:
            self._refuse(peer, str(error))
        except Exception as error:  # a bug in this program
            self._refuse(peer, f"the server has a fault ({type(error).__name__}: {error})")

    def _answer(self, peer: _Peer, message: wire.Message) -> None:
        session = peer.session
        if isinstance(message, wire.StatusRequest):
            wire.send(
                peer.sock, wire.StatusReport(tuple(wire.cut(line, 300) for line in self.report()))
            )
        elif isinstance(message, wire.Hello) and session is None:
            self._hello(peer, message)
        elif isinstance(message, wire.Submit) and session is not None:
            if (bucket := session.submit(peer.rank, message, time.monotonic())) is not None:
                self._reduce(session, bucket)
        elif isinstance(message, wire.Skip) and session is not None:
            session.skip(peer.rank, message.seq)
        elif isinstance(message, wire.Ask) and session is not None:
            session.ask(peer.rank, message)
        elif isinstance(message, wire.Bye):
            self._drop(peer, bye=True)
        else:
            raise wire.WireError(f"{type(message).__name__.upper()} is out of place")

    def _reduce(self, session: JobSession, bucket: ServedBucket) -> None:
        if self._device.stuck:
            session.finished(bucket.seq, Word.LOST, STUCK)
        else:
            self._device.put(session, bucket)

    def _hello(self, peer: _Peer, hello: wire.Hello) -> None:
        session = self._session
        if hello.world != self._workers:
            raise RefusedOne(
                f"{hello.world} workers, and the server was started with --workers {self._workers}"
            )
        if not 0 <= hello.rank < hello.world:
            raise RefusedOne(f"rank {hello.rank} of {hello.world} workers")
        if hello.job == self._refused[0]:  # a refused job: refuse its late ranks as well
            raise RefusedOne(self._refused[1])
        if session is not None and session.first.job != hello.job:
            if session.whole or not session.ended:
                raise RefusedOne(
                    f"the device has a job of {self._workers} workers already ({session.first.job})"
                    "; start a server of your own, with another --socket"
                )
            session = None
        if session is None:
            session = JobSession(hello, self._welcome, self._timeout_s, time.monotonic())
            self._session = session
        peer.session, peer.rank = session, hello.rank
        try:
            session.join(hello, self._tell)
        except RefusedOne:
            peer.session = None
            raise
        except Refusal as refusal:
            self._refused = (hello.job, str(refusal))
            self._end(session, str(refusal))
            return
        if session.whole:
            self._jobs += 1
            self._say(f"job {hello.job}: all {hello.world} ranks are here")

    def _tell(self, rank: int, message: wire.Message, files: Sequence[int]) -> None:
        for peer in list(self._peers.values()):
            if peer.session is self._session and peer.rank == rank:
                wire.send(peer.sock, message, files)  # a dead peer is noticed when it is read

    def _refuse(self, peer: _Peer, why: str) -> None:
        self._say(f"refused {peer.who}: {why}")
        wire.send(peer.sock, wire.Refused(wire.cut(why, 1000)))
        self._drop(peer)

    def _drop(self, peer: _Peer, *, bye: bool = False) -> None:
        """Close a connection, and let its rank leave its session."""
        self._forget(peer)
        session = peer.session
        if session is None:
            return
        before = session.ended
        session.leave(peer.rank, bye=bye)
        if session.ended and not before and not bye:
            self._say(f"job {session.first.job}: {session.ended}")

    def _forget(self, peer: _Peer) -> None:
        if self._peers.pop(peer.sock.fileno(), None) is not None:
            self._select.unregister(peer.sock)
            peer.sock.close()

    # -- time, device, end ------------------------------------------------------------------------
    def _wait_s(self) -> float:
        until = [self._device.until]
        if self._session is not None:
            until.append(self._session.deadline())
        now = time.monotonic()
        return max(0.0, min([LOOK_S, *(one - now for one in until if one is not None)]))

    def _finished(self) -> None:
        for one in self._device.finished():
            if one.why:
                self._say(f"bucket {one.seq}: {one.word.name}: {one.why}")
            if self._session is not None and one.owner is self._session:  # the session still exists
                self._session.finished(one.seq, one.word, one.why, one.counters)

    def _expire(self) -> None:
        now = time.monotonic()
        stuck, session = self._device.expire(now), self._session
        if session is None:
            return
        if stuck:
            self._say(f"job {session.first.job}: {STUCK}")
            session.overdue(STUCK)
        for bucket in session.close_rounds(now) if session.whole else ():
            where = f"step {bucket.step} bucket {bucket.bucket}"
            late = ", ".join(map(str, bucket.late))
            self._say(f"job {session.first.job}: {where}: closed without rank {late}")
            self._reduce(session, bucket)
        try:
            lost = session.tally["LOST"]
            session.expire(now)
            if session.tally["LOST"] > lost:
                self._say(f"job {session.first.job}: {session.tally['LOST']} buckets lost so far")
        except Refusal as refusal:
            self._end(session, str(refusal))
        if session.ended and session.idle:
            self._end(session, session.ended)

    def _end(self, session: JobSession, why: str) -> None:
        """End a session for all its ranks; wait for the device if it has a bucket of it."""
        session.end(why)
        if not session.idle:
            return  # wait for the device
        self._dismiss(session, why, told=not session.whole)
        self._say(f"job {session.first.job} ends: {', '.join(session.told()[1:2])}")
        session.close()
        if self._session is session:
            self._session = None
            self._before.update(session.tally)

    def _abandon(self, error: Exception) -> None:
        """End the session after an exception in the server; of its methods call only `close`.

        Without a session, raise the exception again.
        """
        session, self._session = self._session, None
        if session is None:
            raise error
        why = f"the server has a fault ({type(error).__name__}: {error}); the job ends"
        self._say(why)
        self._dismiss(session, why)
        session.close()

    def _dismiss(self, session: JobSession, why: str, told: bool = False) -> None:
        """Send REFUSED to all ranks of a session and close their connections.

        ``told``: write a line of the log for each.
        """
        for peer in [one for one in self._peers.values() if one.session is session]:
            if told:
                self._say(f"refused {peer.who}: {why}")
            wire.send(peer.sock, wire.Refused(wire.cut(why, 1000)))
            self._forget(peer)

    def _close(self) -> None:
        if self._session is not None:
            self._session.end("the server was ended")
        for peer in list(self._peers.values()):
            self._forget(peer)
        self._listener.close()
        self._device.close()
        self._select.close()

# SPDX-License-Identifier: Apache-2.0
"""Engine of the codec that builds `pack.c` at its first use and calls it through ctypes.

The library is in a folder of the user's cache, never where the package is installed, which may be
read-only. Its name is a digest of source, compiler options and machine. Its last 32 bytes are the
SHA-256 of the others: a file that was cut off would end the process by SIGBUS when it is called, so
it is built again instead.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from neuron_fabric.codec import numpy_engine
from neuron_fabric.codec.array_checks import check
from neuron_fabric.codec.draws import Draws, Key
from neuron_fabric.codec.numpy_engine import F32, U8, ScanResult, Tensors
from neuron_fabric.codec.routes import Route
from neuron_fabric.data import DataError, read_bytes
from neuron_fabric.private_folder import NAME, make_private, private_temporary

SOURCE = Path(__file__).with_name("pack.c")
OPTIONS = (
    *("-std=c11", "-O3", "-ffp-contract=off", "-fno-trapping-math"),
    *("-Wno-psabi", "-fPIC", "-shared"),
)
AVX2 = ("-mavx2", "-mpopcnt")
COMPILERS = ("cc", "gcc", "clang", "g++", "c++")
_BUILD_SECONDS = 120
_HASH = hashlib.sha256().digest_size
_MODE = 0o600
_SIZE, _POINTER = ctypes.c_size_t, ctypes.c_void_p
_ARRAY, _INT = (_POINTER, _SIZE), ctypes.c_int
_TENSORS = _ARRAY  # the second number is that of the tensors
_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "nf_look": (*_TENSORS, _INT, *_ARRAY),
    "nf_pack_binary": (*_TENSORS, *_ARRAY, _INT, *_ARRAY),
    "nf_pack_ternary": (*_TENSORS, *_ARRAY, *_ARRAY, *_ARRAY),
    "nf_count": (*_ARRAY, _SIZE, _SIZE, *_ARRAY, _INT, *_ARRAY, *_ARRAY),
    "nf_unpack": (*_ARRAY, _INT, *_ARRAY, *_TENSORS),
    "nf_unpack_net": (*_ARRAY, _SIZE, _INT, _SIZE, _INT, *_ARRAY, *_ARRAY),
    "nf_maxima": (*_TENSORS, *_ARRAY),
    "nf_pack_codes": (*_TENSORS, *_ARRAY, _INT, *_ARRAY, *_ARRAY, *_ARRAY),
    "nf_add_codes": (*_ARRAY, _SIZE, _SIZE, *_ARRAY, _INT, _INT, *_ARRAY),
    "nf_unpack_sums": (*_ARRAY, _SIZE, _SIZE, _INT, *_ARRAY, *_ARRAY, *_TENSORS),
}
_FAULTS = (
    "no fault",
    "an array is missing",
    "an array is not aligned",
    "an array has another size",
    "a number is out of range",
    "arrays overlap",
)
"""Return codes of the functions of `pack.c`, by number."""


class NoLibraryError(Exception):
    """`pack.c` cannot be built or loaded here; the text says why."""


_SEEN = np.dtype([("total", np.float64), ("number", np.uint64), ("finite", np.uint64)])


class NativeEngine:
    """Engine that calls the functions of `pack.c`; `numpy_engine` documents each.

    They raise ValueError for arrays that do not fit together, and have written nothing then.
    """

    def __init__(self, library: Path) -> None:
        """Load the library. Raise NoLibraryError if that fails."""
        try:
            loaded = ctypes.CDLL(str(library))
            for name, arguments in _FUNCTIONS.items():
                function = getattr(loaded, name)
                function.argtypes, function.restype, function.errcheck = arguments, _INT, _checked
        except (OSError, AttributeError) as error:
            raise NoLibraryError(str(error)) from None
        self.c = loaded
        """The library itself."""

    def look(self, xs: Tensors, add: bool) -> list[ScanResult]:
        """Return sum of abs(x) (if ``add``), zeros and finiteness of each tensor."""
        seen = np.empty(len(xs), _SEEN)
        self.c.nf_look(*_tensors(xs), add, seen.ctypes.data, seen.nbytes)
        return _values(seen)

    def pack_binary(self, xs: Tensors, lines: U8, add: bool) -> list[ScanResult]:
        """Pack tensors to G_BINARY ``lines``; return the scan of each as `look` does."""
        seen = np.empty(len(xs), _SEEN)
        own, out = _tensors(xs), _u8(lines, True)
        self.c.nf_pack_binary(*own, *out, add, seen.ctypes.data, seen.nbytes)
        return _values(seen)

    def pack_ternary(self, xs: Tensors, thresholds: F32, lines: U8) -> list[ScanResult]:
        """Pack tensors to G_TERNARY ``lines``; return sum and number of the open gates of each."""
        seen = np.empty(len(xs), _SEEN)
        own, limits, out = _tensors(xs), _f32(thresholds), _u8(lines, True)
        self.c.nf_pack_ternary(*own, *limits, *out, seen.ctypes.data, seen.nbytes)
        return _values(seen)

    def count(
        self,
        lines: U8,
        present: NDArray[np.bool_] | None,
        route: Route,
        planes: U8 | None,
        vote: U8 | None,
    ) -> None:
        """Count the votes in all workers' lines, into count planes and vote lines if given."""
        workers, size, _ = lines.shape
        here = _array(present, np.bool_, False)
        out = *_u8(planes, True), *_u8(vote, True)
        self.c.nf_count(*_u8(lines), workers, size, *here, route == Route.G_TERNARY, *out)

    def unpack(self, lines: U8, route: Route, values: F32, outs: Tensors) -> None:
        """Replace each code in lines of votes by a value of its tensor, into ``outs``."""
        own = _tensors(outs, True)
        self.c.nf_unpack(*_u8(lines), route.bits, *_f32(values), *own)

    def unpack_net(self, planes: U8, route: Route, values: F32, out: F32) -> None:
        """Replace each count in count planes by a value, into ``out``."""
        count, size = len(planes), planes.nbytes // max(1, len(planes))
        arrays = *_f32(values), *_f32(out, True)
        self.c.nf_unpack_net(*_u8(planes), size, count, out.size, route.bits, *arrays)

    def maxima(self, xs: Tensors, largest: F32) -> None:
        """Write the largest abs(x) of each bucket of the tensors to ``largest``."""
        self.c.nf_maxima(*_tensors(xs), *_f32(largest, True))

    def pack_codes(
        self, xs: Tensors, route: Route, u: F32, draws: Sequence[Draws], lines: U8
    ) -> list[ScanResult]:
        """Pack tensors to integer codes; return zeros of each, and whether its codes hold it.

        Draws of a function are not those of `pack.c`: numpy packs them.
        """
        keys = [one.words() for one in draws if isinstance(one, Key)]
        if len(keys) != len(xs) and any(one is not None for one in draws):
            return numpy_engine.pack_codes(xs, route, u, draws, lines)
        words, seen = np.array(keys, np.uint64) if keys else None, np.empty(len(xs), _SEEN)
        arrays = *_array(words, np.uint64, False), *_u8(lines, True)
        own = _tensors(xs)
        self.c.nf_pack_codes(*own, *_f32(u), route.bits, *arrays, seen.ctypes.data, seen.nbytes)
        return _values(seen)

    def add_codes(
        self, lines: U8, present: NDArray[np.bool_] | None, route: Route, width: int, sums: U8
    ) -> None:
        """Add the codes in all workers' lines, into ``sums`` of ``width`` bytes each."""
        workers, size, _ = lines.shape
        here = _array(present, np.bool_, False)
        out = _u8(sums, True)
        self.c.nf_add_codes(*_u8(lines), workers, size, *here, route.bits, width, *out)

    def unpack_sums(self, sums: U8, width: int, u: F32, present: U8, outs: Tensors) -> None:
        """Convert sums of codes to u * sum / present, into ``outs``."""
        layers, size, _ = sums.shape
        arrays = *_f32(u), *_u8(present), *_tensors(outs, True)
        self.c.nf_unpack_sums(*_u8(sums), size, layers, width, *arrays)


def _checked(fault: int, function: Any, _: object) -> None:
    if fault:
        raise ValueError(f"{function.__name__}: {_FAULTS[fault]}")


def _values(seen: NDArray[Any]) -> list[ScanResult]:
    return [ScanResult(total, number, bool(finite)) for total, number, finite in seen.tolist()]


def _tensors(arrays: Tensors, out: bool = False) -> tuple[Any, int]:
    """Return addresses and sizes in elements of tensors, for `pack.c`, and their number."""
    words: list[int] = []
    for one in arrays:
        address, size = _array(one, np.float32, out)
        words += address or 0, size // 4
    return (ctypes.c_size_t * len(words))(*words), len(arrays)


def _f32(array: F32, out: bool = False) -> tuple[int | None, int]:
    return _array(array, np.float32, out)


def _u8(array: U8 | None, out: bool = False) -> tuple[int | None, int]:
    return _array(array, np.uint8, out)


def _array(array: NDArray[Any] | None, kind: DTypeLike, out: bool) -> tuple[int | None, int]:
    """Return address and size in bytes of an array, for `pack.c`; (None, 0) for None."""
    if array is None:
        return None, 0
    check("an array of pack.c", array, kind, *"n" * array.ndim, dense=True, out=out)
    return array.ctypes.data, array.nbytes


def library(env: Mapping[str, str] = os.environ, code: Path = SOURCE) -> Path:
    """Return the path of the library of ``code``, which is built unless it is in the cache.

    Raises:
        NoLibraryError: It cannot be built, or this machine is big-endian.
    """
    if sys.byteorder != "little":
        raise NoLibraryError("lines are little-endian, this machine is not")
    words = (*OPTIONS, *(AVX2 if _has_avx2() else ()))
    try:
        source = code.read_bytes()
        folder = cache_folder(env)
        digest = _digest(source, *words, platform.machine(), sys.platform)
        place = folder / f"{code.stem}-{digest}.so"
        if not _is_whole(place):
            _build(_compiler(env), words, code, place)
    except OSError as error:
        raise NoLibraryError(str(error)) from None
    return place


def cache_folder(env: Mapping[str, str]) -> Path:
    """Create the folder `neuron-fabric` in XDG_CACHE_HOME or `~/.cache`, and return it.

    No other user can change it or its parents, since code is loaded from it. Without a home folder,
    or with one that others can change, it is in the folder for temporary files. Raises OSError.
    """
    named = env.get("XDG_CACHE_HOME", "")
    if os.path.isabs(named):
        return make_private(Path(named, NAME))
    try:
        home = Path.home()
        if home.is_absolute():
            return make_private(home / ".cache" / NAME)
    except (OSError, RuntimeError):  # no HOME, and no entry in the list of users
        pass
    return private_temporary()


def _is_whole(place: Path) -> bool:
    """Return True if the library exists, belongs to this user and has the hash of `_build`."""
    try:
        about, data = place.lstat(), read_bytes(place)
    except (OSError, DataError):
        return False
    if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) != _MODE:
        return False
    return hashlib.sha256(data[:-_HASH]).digest() == data[-_HASH:]


def _compiler(env: Mapping[str, str]) -> list[str]:
    for name in filter(None, (env.get("CC", ""), *COMPILERS)):
        if found := shutil.which(name, path=env.get("PATH")):
            return [found, "-x", "c"]
    raise NoLibraryError("there is no C compiler")


def _build(compiler: list[str], words: tuple[str, ...], code: Path, place: Path) -> None:
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        new = Path(folder, f"{code.stem}.so")
        command = [*compiler, *words, str(code), "-o", str(new), "-lm"]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                timeout=_BUILD_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise NoLibraryError(f"{compiler[0]} takes over {_BUILD_SECONDS} s") from None
        if done.returncode:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            raise NoLibraryError(f"{compiler[0]}: {said[0]}")
        ctypes.CDLL(str(new))  # what cannot be loaded is not kept
        with new.open("r+b") as stream:
            content = stream.read()
            stream.write(hashlib.sha256(content).digest())
            stream.flush()
            os.fchmod(stream.fileno(), _MODE)
            os.fsync(stream.fileno())
        os.replace(new, place)


def _has_avx2() -> bool:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    flags = next((line.split() for line in text.splitlines() if line.startswith("flags")), [])
    return "avx2" in flags and "popcnt" in flags


def _digest(source: bytes, *words: str) -> str:
    return hashlib.sha256(b"\0".join([source, *(word.encode() for word in words)])).hexdigest()[:24]

"""libweigh as Python sees it: found, and its functions declared."""

from __future__ import annotations

import ctypes
import hashlib
import os
import pathlib
import threading
from typing import Iterable, NamedTuple, Optional, Tuple, Union

from ._fields import (
    BY_PART_WORDS,
    COUNTERS,
    FIRST_OWN,
    LAST_OWN,
    LAYOUT,
    OWN_NUMBERS,
    SUBSYSTEMS,
    WORDS,
)

Words = ctypes.Array
Position = ctypes.c_uint32
SettledCallback = ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p)

_U64 = ctypes.c_uint64
_POINTER = ctypes.c_void_p


class _Told(ctypes.Structure):
    """struct weigh_own_number."""

    _fields_ = [("part", ctypes.c_uint32), ("is_ns", ctypes.c_uint32), ("name", ctypes.c_char_p)]


_FUNCTIONS = {
    "weigh_open": (_POINTER, []),
    "weigh_why": (ctypes.c_char_p, [_POINTER]),
    "weigh_text": (ctypes.c_char_p, [ctypes.c_int]),
    "weigh_layout": (_U64, []),
    "weigh_subsystems": (_U64, [_POINTER]),
    "weigh_want": (ctypes.c_int, [_POINTER, _U64]),
    "weigh_why_part": (ctypes.c_int, [_POINTER, ctypes.c_uint]),
    "weigh_why_text": (
        ctypes.c_size_t,
        [_POINTER, ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "weigh_part_name": (ctypes.c_char_p, [_POINTER, ctypes.c_uint]),
    "weigh_own_number": (ctypes.c_int, [_POINTER, ctypes.c_uint, ctypes.POINTER(_Told)]),
    "weigh_begin": (ctypes.c_int, [_POINTER, _U64, _U64]),
    "weigh_end": (ctypes.c_int, [_POINTER]),
    "weigh_read": (_POINTER, [_POINTER, _U64]),
    "weigh_read_parts": (_POINTER, [_POINTER, _U64]),
    "weigh_release": (ctypes.c_int, [_POINTER, _U64]),
    "weigh_refused": (_U64, [_POINTER]),
    "weigh_settled": (ctypes.c_int, [_POINTER, _U64]),
    "weigh_watch": (ctypes.c_int, [_POINTER, _U64]),
    "weigh_descriptor": (ctypes.c_int, [_POINTER]),
    "weigh_dispatch": (ctypes.c_int, [_POINTER, SettledCallback, _POINTER]),
    "weigh_limit": (ctypes.c_int, [_POINTER, _U64, ctypes.c_size_t, _U64]),
    "weigh_unlimit": (None, [_POINTER, _U64, ctypes.c_size_t]),
    "weigh_passed": (ctypes.c_int, [_POINTER, _POINTER, ctypes.c_int]),
    "weigh_peer_open": (_POINTER, [_POINTER, ctypes.c_int, ctypes.POINTER(ctypes.c_int)]),
    "weigh_peer_read": (_POINTER, [_POINTER, _U64]),
    "weigh_peer_next": (_POINTER, [_POINTER, ctypes.POINTER(Position)]),
    "weigh_peer_close": (None, [_POINTER]),
    "weigh_trace_open_buffer": (
        _POINTER,
        [ctypes.c_int, ctypes.c_char_p, _POINTER, ctypes.POINTER(ctypes.c_int)],
    ),
    "weigh_trace_open_buffer_at": (
        _POINTER,
        [ctypes.c_char_p, ctypes.c_char_p, _POINTER, ctypes.POINTER(ctypes.c_int)],
    ),
    "weigh_trace_next": (_POINTER, [_POINTER, ctypes.c_int]),
    "weigh_trace_copy": (ctypes.c_size_t, [_POINTER, _POINTER, ctypes.c_size_t]),
    "weigh_trace_why": (ctypes.c_int, [_POINTER]),
    "weigh_trace_fd": (ctypes.c_int, [_POINTER]),
    "weigh_trace_lost": (None, [_POINTER, ctypes.c_uint32, _POINTER]),
    "weigh_trace_description": (ctypes.c_char_p, [_POINTER]),
    "weigh_trace_control": (
        ctypes.c_int,
        [_POINTER, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t],
    ),
    "weigh_trace_close": (None, [_POINTER]),
    "weigh_reports_open": (_POINTER, [ctypes.c_int, _U64, ctypes.POINTER(ctypes.c_int)]),
    "weigh_reports_open_at": (_POINTER, [ctypes.c_char_p, _U64, ctypes.POINTER(ctypes.c_int)]),
    "weigh_reports_next": (ctypes.c_char_p, [_POINTER, ctypes.c_int]),
    "weigh_reports_fd": (ctypes.c_int, [_POINTER]),
    "weigh_reports_why": (ctypes.c_int, [_POINTER]),
    "weigh_reports_close": (None, [_POINTER]),
    "weigh_regions_why": (ctypes.c_char_p, []),
    "weigh_region_name_of": (ctypes.c_uint32, [ctypes.c_char_p, ctypes.c_size_t]),
    "weigh_region_begin": (None, [ctypes.c_uint32]),
    "weigh_region_end": (None, [ctypes.c_uint32]),
    "weigh_phase_begin": (None, [ctypes.c_uint32, _U64]),
    "weigh_phase_end": (None, [ctypes.c_uint32]),
    "weigh_counter_add": (None, [ctypes.c_uint32, ctypes.c_int64]),
    "weigh_gauge_set": (None, [ctypes.c_uint32, ctypes.c_double]),
    "weigh_event_tell": (None, [ctypes.c_uint32, ctypes.c_double]),
    "weigh_metadata": (None, [ctypes.c_char_p, ctypes.c_char_p]),
    "weigh_publish": (None, []),
    "weigh_publish_every": (None, [ctypes.c_double, ctypes.c_uint32, _U64]),
    "weigh_poll_control_": (ctypes.c_int, [_POINTER]),
    "weigh_control_send": (
        ctypes.c_int,
        [ctypes.c_char_p, _POINTER, ctypes.c_double, _POINTER],
    ),
}


def _load() -> ctypes.CDLL:
    beside = pathlib.Path(__file__).with_name("libweigh.so")
    name = str(beside) if beside.exists() else "libweigh.so.0"
    try:
        found = ctypes.CDLL(os.environ.get("WEIGH_LIBRARY", name))
    except OSError as error:
        # Programs that do without weigh where it is not installed expect no other error.
        hint = "install weigh's package, or `pip install ./libweigh/python`, which compiles it in"
        raise ImportError(f"{error}; {hint}") from error
    for function, (result, arguments) in _FUNCTIONS.items():
        declared = getattr(found, function)
        declared.restype, declared.argtypes = result, arguments
    if found.weigh_layout() != LAYOUT:
        raise ImportError(f"{name} is of another version of weigh than this module")
    return found


library = _load()
_of_thread = threading.local()


class OwnPart(NamedTuple):
    """A part that a configuration defines: its place, and those of its numbers in `own` of an account, with whether they
    are nanoseconds."""

    place: int
    numbers: dict[str, Tuple[int, bool]]


_own_parts: dict[str, OwnPart] = {}


def _forget() -> None:
    global _of_thread, _own_parts
    _of_thread = threading.local()
    _own_parts = {}


# What a child has of its parent's handles is no use to it.
os.register_at_fork(after_in_child=_forget)


def handle() -> int:
    """The calling thread's."""
    found: Optional[int] = getattr(_of_thread, "handle", None)
    if found is None:
        found = _of_thread.handle = library.weigh_open()
    return found


def text(reason: int) -> str:
    """A reason as text."""
    return library.weigh_text(reason).decode()


def why_text(place: int) -> str:
    """Why a part is not measured now, with what the agent says of it."""
    said = ctypes.create_string_buffer(1024)
    library.weigh_why_text(handle(), place, said, len(said))
    return said.value.decode(errors="replace")


def own_parts() -> dict[str, OwnPart]:
    """The parts that the agent's configuration defines: they do not change once they are known."""
    global _own_parts
    # The first has the first place.
    if _own_parts or not library.weigh_part_name(handle(), FIRST_OWN):
        return _own_parts
    found: dict[str, OwnPart] = {}
    for place in range(FIRST_OWN, LAST_OWN + 1):
        if name := library.weigh_part_name(handle(), place):
            found[name.decode()] = OwnPart(place, {})
    by_place = {part.place: part for part in found.values()}
    told = _Told()
    for number in range(OWN_NUMBERS):
        if library.weigh_own_number(handle(), number, told):
            by_place[told.part].numbers[told.name.decode()] = (number, bool(told.is_ns))
    _own_parts = found
    return found


def token(given: Union[int, str, bytes]) -> int:
    """The number of a token."""
    if isinstance(given, int):
        if not 0 <= given < 1 << 64:
            raise ValueError(f"{given} is no token: it has to be from 0 to 2**64 - 1")
        return given
    if not isinstance(given, (str, bytes)):
        kind = type(given).__name__
        raise TypeError(f"{given!r} is no token: expected an int, a str or bytes, not {kind}")
    data = given.encode() if isinstance(given, str) else given
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


def _each(names: Iterable[str], what: str) -> Iterable[str]:
    """The names of a collection. A text is one, too, of letters, which nobody means."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise TypeError(f"{what}={names!r}: expected a collection of names, such as [{names!r}]")
    return names


def bits(names: Optional[Iterable[str]], counters: Iterable[str] = ()) -> int:
    """A set of subsystems, and of counters."""
    wanted = 0
    for name in SUBSYSTEMS if names is None else _each(names, "subsystems"):
        if name not in SUBSYSTEMS:
            known = ", ".join(SUBSYSTEMS)
            raise ValueError(
                f"{name!r} is no part of the kernel; there are {known}; those of the agent's configuration go into `own`"
            )
        wanted |= 1 << SUBSYSTEMS.index(name)
    for name in _each(counters, "counters"):
        if name not in COUNTERS:
            raise ValueError(f"{name!r} is no counter; there are {', '.join(COUNTERS)}")
        wanted |= 1 << COUNTERS[name][1]
    return wanted


def own_bits(names: Optional[Iterable[str]], is_all: bool) -> Tuple[int, frozenset[str]]:
    """A set of parts of the agent's configuration, and the names that it does not have."""
    parts = own_parts()
    if names is None:
        wanted = frozenset(parts) if is_all else frozenset()
    else:
        wanted = frozenset(_each(names, "own"))
    for name in wanted:
        if not isinstance(name, str):
            raise TypeError(f"own has {name!r}: expected names, which are str")
        if name in SUBSYSTEMS:
            raise ValueError(f"{name!r} is built in: it goes into `subsystems`")
    bits = 0
    for name in wanted & parts.keys():
        bits |= 1 << parts[name].place
    return bits, wanted - parts.keys()


def words(address: Optional[int]) -> Optional[Words]:
    """The numbers of the account that lies there."""
    return (_U64 * WORDS).from_address(address) if address else None


def part_words(address: Optional[int]) -> Optional[Words]:
    """What lies there of each part."""
    return (_U64 * BY_PART_WORDS).from_address(address) if address else None


def open_peer(pid: int) -> Tuple[Optional[int], int]:
    """Another process's accounts, or why not."""
    reason = ctypes.c_int()
    return library.weigh_peer_open(handle(), pid, ctypes.byref(reason)), reason.value

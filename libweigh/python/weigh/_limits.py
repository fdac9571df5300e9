"""Limits on numbers of an account: a descriptor becomes readable when one is passed."""

from __future__ import annotations

import ctypes
from typing import List, NamedTuple, Optional, Tuple

from . import _library
from ._fields import CALLS, TIME, Parts
from ._library import library

#: A word of an account has so many bytes.
_WORD = 8
_SECONDS = 10**9


class _Passed(ctypes.Structure):
    """struct weigh_passed."""

    _fields_ = [
        ("token", ctypes.c_uint64),
        ("number", ctypes.c_size_t),
        ("value", ctypes.c_uint64),
        ("reached", ctypes.c_uint64),
    ]


class Passed(NamedTuple):
    """A limit that was passed."""

    #: The account's.
    token: int
    #: As it was asked for: ``block.written_bytes_total``.
    number: str
    #: What it had to reach, and what it was when this was told; seconds where the number has them.
    value: float
    reached: float


class _Places(Parts):
    """Where numbers lie, in the place of what they are: the index, and what one unit of Python's has of them."""

    __slots__ = ()

    def _count(self, index: int, parts: int) -> Tuple[int, int]:  # type: ignore[override]
        return index, 1

    def _seconds(self, index: int, parts: int) -> Tuple[int, int]:  # type: ignore[override]
        return index, _SECONDS

    _later_count = _count  # type: ignore[assignment]
    _later_seconds = _seconds  # type: ignore[assignment]


def place_of(name: str) -> Tuple[int, int]:
    """The index of a number, and what one unit of Python's has of them."""
    own = {"calls": (CALLS, 1), "time_seconds": (TIME, _SECONDS)}
    if name in own:
        return own[name]
    part, _, number = name.partition(".")
    try:
        found = getattr(getattr(_Places(), part), number)
    except AttributeError:
        found = None
    if not isinstance(found, tuple) or number.startswith("_"):
        raise ValueError(
            f"an account has no number {name!r}; expected calls, time_seconds, or PART.NUMBER as in block.written_bytes_total"
        )
    return found


#: What was asked for by each number of a token, for :func:`passed` to call it the same.
_asked: dict[Tuple[int, int], Tuple[str, int]] = {}


def limit(token: int, name: str, value: float) -> Optional[str]:
    """Sets one; why nothing will be told, if so."""
    index, unit = place_of(name)
    whole = int(value * unit)
    if whole <= 0:
        raise ValueError(f"a limit of {value!r} on {name}: expected a number above 0")
    _asked[token, index * _WORD] = name, unit
    reason = library.weigh_limit(_library.handle(), token, index * _WORD, whole)
    return _library.text(reason) if reason else None


def unlimit(token: int, name: str) -> None:
    """Takes one back."""
    index, _ = place_of(name)
    library.weigh_unlimit(_library.handle(), token, index * _WORD)
    _asked.pop((token, index * _WORD), None)


def passed() -> List[Passed]:
    """The limits that were passed since the last time, each once; makes :func:`descriptor` unreadable."""
    told: List[Passed] = []
    one = _Passed()
    while library.weigh_passed(_library.handle(), ctypes.byref(one), 1):
        name, unit = _asked.pop((one.token, one.number), (str(one.number), 1))
        value, reached = (one.value, one.reached) if unit == 1 else (one.value / unit, one.reached / unit)
        told.append(Passed(one.token, name, value, reached))
    return told

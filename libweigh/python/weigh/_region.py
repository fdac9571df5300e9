"""Regions of a program, told to the listener that measures it. See weigh_region.h for what each thing means."""

from __future__ import annotations

import ctypes
import functools
import inspect
import os
from typing import Any, Callable, NamedTuple, Optional, TypeVar, Union

from ._library import library

_Function = TypeVar("_Function", bound=Callable[..., Any])
_Text = Union[str, bytes]

_active = ctypes.c_int.in_dll(library, "weigh_regions_active")
_begin, _end = library.weigh_region_begin, library.weigh_region_end


_LEAVE_THEIR_THREAD = (
    inspect.iscoroutinefunction,
    inspect.isgeneratorfunction,
    inspect.isasyncgenfunction,
)


class _Control(ctypes.Structure):
    """struct weigh_control."""

    _fields_ = [
        ("kind", ctypes.c_uint64),
        ("number", ctypes.c_double),
        ("key", ctypes.c_char * 65),
        ("text", ctypes.c_char * 169),
    ]


class _Sent(ctypes.Structure):
    """struct weigh_sent."""

    _fields_ = [
        *((name, ctypes.c_uint32) for name in ("processes", "taken", "waiting", "ended", "refused")),
        ("why", ctypes.c_char * 200),
    ]


class Sent(NamedTuple):
    """What became of a request: of `processes` so many have taken it, have not yet, or have ended."""

    processes: int
    taken: int
    waiting: int
    ended: int


class Control(NamedTuple):
    """What a client has sent to the program; `kind` 1 is a value under a key of the program's own."""

    kind: int
    key: str
    number: float
    text: str


def _bytes(text: _Text) -> bytes:
    return text if isinstance(text, bytes) else text.encode(errors="surrogateescape")


@functools.lru_cache(maxsize=16384)
def _known(text: _Text) -> int:
    name = _bytes(text)
    number: int = library.weigh_region_name_of(name, len(name))
    return number


def _name(text: _Text) -> int:
    # What is looked up while nobody listens is 0, and is none.
    return _known(text) if _active.value else 0


class region:
    """A region: a context manager, and a decorator of functions.

    Use it around what stays on its thread: not around an ``await``, nor a ``yield``.
    """

    __slots__ = ("_text", "_number")

    def __init__(self, name: _Text) -> None:
        self._text, self._number = name, 0

    def __enter__(self) -> "region":
        if _active.value:
            self._number = _name(self._text)
            _begin(self._number)
        return self

    def __exit__(self, *error: object) -> None:
        if self._number and _active.value:
            _end(self._number)

    def __call__(self, function: _Function) -> _Function:
        if any(leaves(function) for leaves in _LEAVE_THEIR_THREAD):
            raise TypeError("a region stays on its thread from begin to end: no coroutine, no generator")
        text = self._text

        @functools.wraps(function)
        def measured(*arguments: Any, **named: Any) -> Any:
            if not _active.value:
                return function(*arguments, **named)
            number = _name(text)
            _begin(number)
            try:
                return function(*arguments, **named)
            finally:
                _end(number)

        return measured  # type: ignore[return-value]


class phase:
    """A region with the number of its iteration; a context manager."""

    __slots__ = ("_text", "_iteration", "_number")

    def __init__(self, name: _Text, iteration: int) -> None:
        self._text, self._iteration, self._number = name, iteration, 0

    def __enter__(self) -> "phase":
        if _active.value:
            self._number = _name(self._text)
            library.weigh_phase_begin(self._number, self._iteration)
        return self

    def __exit__(self, *error: object) -> None:
        if self._number and _active.value:
            library.weigh_phase_end(self._number)


def count(name: _Text, number: int = 1) -> None:
    """Adds to a counter."""
    if _active.value:
        library.weigh_counter_add(_name(name), number)


def gauge(name: _Text, value: float) -> None:
    """Sets a gauge."""
    if _active.value:
        library.weigh_gauge_set(_name(name), value)


def event(name: _Text, value: float) -> None:
    """Tells of an event with a value."""
    if _active.value:
        library.weigh_event_tell(_name(name), value)


def metadata(key: _Text, value: _Text) -> None:
    """Says something about the program; the last value of a key counts."""
    if _active.value:
        library.weigh_metadata(_bytes(key), _bytes(value))


def publish() -> None:
    """Gives the profile out as it stands."""
    if _active.value:
        library.weigh_publish()


def publish_every(seconds: float = 0, phase: Optional[_Text] = None, iterations: int = 0) -> None:
    """Publishes by itself from now on: by time, at each so many ends of a phase; of any phase if none is named."""
    if _active.value:
        library.weigh_publish_every(seconds, 0 if phase is None else _name(phase), iterations)


def poll_control() -> Optional[Control]:
    """The next thing that a client has sent to the program; None if there is none."""
    control = _Control()
    if not _active.value or not library.weigh_poll_control_(ctypes.byref(control)):
        return None
    return Control(
        control.kind,
        control.key.decode(errors="replace"),
        control.number,
        control.text.decode(errors="replace"),
    )


#: What `send_control` sends, as `weigh control` names it.
_KINDS = {"set": 1, "publish": 2, "on": 3, "off": 4, "publish-every": 5}


def send_control(
    target: Union[int, str, "os.PathLike[str]"],
    request: str,
    key: _Text = "",
    value: Union[_Text, float] = "",
    wait: float = 2.0,
) -> Sent:
    """Sends a request to programs under ``weigh run``, and waits so many seconds until they have taken it.

    `target` is the PID of one of them or of its ``weigh run``, the job's name, or the directory of its recording. Requests
    are ``"set"`` with a key and a value, ``"publish"``, ``"on"`` and ``"off"`` with a pattern of regions as `key`, and
    ``"publish-every"`` with seconds as `value`. Raises OSError with the reason where it was not sent.
    """
    kind = _KINDS.get(request)
    if kind is None:
        raise ValueError(f"no request {request!r}: there are {', '.join(_KINDS)}")
    control, outcome = _Control(kind=kind), _Sent()
    if kind == _KINDS["publish-every"]:
        control.number = float(value)
    control.key, control.text = _bytes(key), _bytes(value if isinstance(value, (str, bytes)) else repr(value))
    if library.weigh_control_send(
        os.fsencode(str(target) if isinstance(target, int) else target), ctypes.byref(control), wait, ctypes.byref(outcome)
    ):
        raise OSError(f"{target}: {outcome.why.decode(errors='replace')}")
    return Sent(outcome.processes, outcome.taken, outcome.waiting, outcome.ended)


def regions_why() -> Optional[str]:
    """Why no regions are kept; None if they are."""
    why = library.weigh_regions_why()
    return why.decode() if why else None

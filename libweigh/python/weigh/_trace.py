"""Events of a ``weigh trace`` that runs, read while they happen."""

from __future__ import annotations

import ctypes
import ipaddress
import json
import time
from typing import Any, Dict, Iterator, Optional, Tuple, Union

from . import _library
from ._library import library

#: A field's value. Stacks are addresses, the innermost first.
Value = Union[int, bool, str, bytes, Tuple[int, ...], None]

_GONE = 2
_EVERY = 0xFFFFFFFF
#: No record is larger.
_MOST_RECORD = 32760


class _Header(ctypes.Structure):
    _fields_ = [
        ("event", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("time_ns", ctypes.c_uint64),
        ("id", ctypes.c_uint64),
        ("cpu", ctypes.c_uint32),
        ("tgid", ctypes.c_uint32),
        ("tid", ctypes.c_uint32),
        ("absent", ctypes.c_uint32),
    ]


class _Wake(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint64), ("count", ctypes.c_uint64), ("ms", ctypes.c_uint64)]


class _Lost(ctypes.Structure):
    _fields_ = [("overrun", ctypes.c_uint64), ("missing", ctypes.c_uint64)]


class Event:
    """One event. A field is ``event["skb->len"]``, or ``event.skb_len``: what is no letter is ``_`` there."""

    __slots__ = ("name", "event", "time_ns", "id", "cpu", "tgid", "tid", "fields")

    def __init__(self, header: _Header, name: str, fields: Dict[str, Value]) -> None:
        self.name = name
        self.event, self.time_ns, self.id = header.event, header.time_ns, header.id
        self.cpu, self.tgid, self.tid = header.cpu, header.tgid, header.tid
        self.fields = fields

    def __getitem__(self, name: str) -> Value:
        return self.fields[name]

    def __getattr__(self, name: str) -> Value:
        for field, value in self.fields.items():
            if _as_name(field) == name:
                return value
        raise AttributeError(f"{self.name} has no field {name!r}; it has {', '.join(self.fields)}")

    def __repr__(self) -> str:
        return f"<{self.name} {self.fields}>"


def _as_name(field: str) -> str:
    plain = field.replace("->", "_")
    return "".join(c if c.isalnum() else "_" for c in plain).strip("_")


def _value(field: Dict[str, Any], record: bytes) -> Value:
    part = record[field["offset"] : field["offset"] + field["bytes"]]
    kind = field["kind"]
    if kind == "text":
        return part.split(b"\0", 1)[0].decode(errors="replace")
    if kind == "bytes":
        return part
    if kind == "ip":
        address = ipaddress.IPv6Address(part)
        return str(address.ipv4_mapped or address)
    if kind in ("stack", "ustack"):
        words = [int.from_bytes(part[at : at + 8], "little") for at in range(0, len(part), 8)]
        return tuple(words[: words.index(0)] if 0 in words else words)
    number = int.from_bytes(part, "little", signed=field["is_signed"])
    if kind == "bool":
        return bool(number)
    if kind == "enum":
        return dict(field["constants"]).get(number, number)
    return number


class Trace:
    """A reader of a stream; iterate over it. See :func:`trace`."""

    def __init__(
        self,
        stream: Union[int, str],
        bytes: int,
        count: int,
        seconds: float,
        buffer: Optional[str] = None,
    ) -> None:
        wake, reason = _Wake(bytes, count, int(seconds * 1000)), ctypes.c_int()
        by = ctypes.byref(wake) if bytes or count or seconds else None
        name = None if buffer is None else buffer.encode()
        if isinstance(stream, int):
            self._trace = library.weigh_trace_open_buffer(stream, name, by, ctypes.byref(reason))
        else:
            path = stream.encode()
            self._trace = library.weigh_trace_open_buffer_at(path, name, by, ctypes.byref(reason))
        if not self._trace:
            which = f"stream {stream}" if buffer is None else f"stream {stream}, buffer {buffer}"
            raise OSError(f"{which}: {_library.text(reason.value)}")
        self._room = ctypes.create_string_buffer(_MOST_RECORD)
        self._events: Dict[int, Dict[str, Any]] = {}

    def next(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event; None if there is none after so many seconds, or the stream has ended (``ended``)."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = -1 if until is None else max(0, int((until - time.monotonic()) * 1000))
            found = library.weigh_trace_next(self._trace, left)
            if not found:
                return None
            size = library.weigh_trace_copy(self._trace, self._room, _MOST_RECORD)
            # What was written over while it was copied is lost, and counted.
            if size:
                record = self._room.raw[:size]
                return self._event(_Header.from_buffer_copy(record), record)

    def _event(self, header: _Header, record: bytes) -> Event:
        if header.event not in self._events:
            described = json.loads(library.weigh_trace_description(self._trace))
            self._events = {event["id"]: event for event in described["events"]}
        event = self._events[header.event]
        fields = {
            field["name"]: None if header.absent >> field["bit"] & 1 else _value(field, record)
            for field in event["fields"]
        }
        return Event(header, event["event"], fields)

    def __iter__(self) -> Iterator[Event]:
        while (event := self.next()) is not None:
            yield event

    @property
    def ended(self) -> bool:
        """Whether the stream has ended."""
        return library.weigh_trace_why(self._trace) == _GONE

    def fileno(self) -> int:
        """For select and poll: readable when there is something, or the stream has ended."""
        return library.weigh_trace_fd(self._trace)

    def lost(self) -> Tuple[int, int]:
        """Events that this reader was too slow for, and those that nobody got."""
        lost = _Lost()
        library.weigh_trace_lost(self._trace, _EVERY, ctypes.byref(lost))
        return lost.overrun, lost.missing

    def control(self, request: Dict[str, Any]) -> Dict[str, Any]:
        """Asks what ``weigh trace ctl`` asks: ``{"filter": {"id": 0, "filter": "skb->len > 500"}}``."""
        answer = ctypes.create_string_buffer(1 << 20)
        line = json.dumps(request).encode()
        reason = library.weigh_trace_control(self._trace, line, answer, len(answer))
        said: Dict[str, Any] = json.loads(answer.value) if answer.value else {}
        if reason:
            raise ValueError(said.get("refused", _library.text(reason)))
        return said

    def close(self) -> None:
        """Takes leave of the stream, which goes on."""
        if self._trace:
            library.weigh_trace_close(self._trace)
        self._trace = None

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def trace(
    stream: Union[int, str],
    *,
    bytes: int = 0,
    count: int = 0,
    seconds: float = 0,
    buffer: Optional[str] = None,
) -> Trace:
    """Reads along with a ``weigh trace`` that runs: by its process, or by the path of its socket.

    Of several buffers (``--into``) it is the first, or the one of that name.

    It is waked when so many bytes or events have come, or so many seconds after something has; by default at
    64 KiB or after 0.1 s. Raises OSError, with the reason, if there is no such stream.
    """
    return Trace(stream, bytes, count, seconds, buffer)

"""What a program's own system calls cost in each part of the kernel, read while it runs.

    import weigh

    with weigh.account("request-17") as a:
        os.fsync(file)
    print(a.block.device_seconds, a.sched.waiting_seconds)

All that is measured under the same token, in whatever thread, is added up in one account. The
rights to measure are those of an agent of weigh (``weigh agent``); where none answers, all of this
works, ``a.why`` says why nothing is measured, and only ``calls`` and ``time_seconds`` are filled.

A number that is not known is None, and never 0: of a part of the kernel that was not asked for, or that nobody
measured. ``a.why_part("block")`` says why. What is written back later of a file is known with ``pagecache`` and
``block``. What it left behind has an end of its room: where ``a.later.lost_total`` is not 0, every other number of
``a.later`` is at least so much, and None instead of 0; ``a.why_part`` says it, too.

An account is for a thread: what other tasks of an event loop do on the same thread meanwhile is in
it too.
"""

from __future__ import annotations

import select
import time
from typing import Iterable, Iterator, Optional, Type, Union

from . import _library, _limits
from ._fields import COUNTERS, ON_REQUEST_BY_PART, SUBSYSTEMS, UNMEASURED, Reason
from ._library import SettledCallback, library
from ._limits import Passed, passed
from ._numbers import Numbers, OwnPart, bit_of, part_names, why_unknown
from ._region import (
    Control,
    Sent,
    count,
    event,
    gauge,
    metadata,
    phase,
    poll_control,
    publish,
    publish_every,
    region,
    regions_why,
    send_control,
)
from ._reports import Reports, reports
from ._trace import Event, Trace, trace

__all__ = [
    "COUNTERS",
    "SUBSYSTEMS",
    "Account",
    "Control",
    "Event",
    "OwnPart",
    "Passed",
    "Peer",
    "Reports",
    "Sent",
    "Trace",
    "account",
    "count",
    "descriptor",
    "dispatch",
    "event",
    "gauge",
    "metadata",
    "own_parts",
    "passed",
    "peer",
    "phase",
    "poll_control",
    "publish",
    "publish_every",
    "refused",
    "region",
    "regions_why",
    "reports",
    "send_control",
    "subsystems",
    "token",
    "trace",
    "want",
    "why",
    "why_part",
]

#: What names an account: a number below 2**64, or a text, of which a number is made: see :func:`token`.
Token = Union[int, str, bytes]


class Account(Numbers):
    """An account of this process; a context manager that opens an interval. See :func:`account`."""

    __slots__ = ("_parts", "_reason", "_token", "_unknown", "_wanted")

    _parts: Optional[_library.Words]

    def __init__(
        self,
        token: Token,
        subsystems: Optional[Iterable[str]] = None,
        counters: Iterable[str] = (),
        own: Optional[Iterable[str]] = None,
        by_part: bool = False,
    ) -> None:
        self._token = _library.token(token)
        bits, self._unknown = _library.own_bits(own, subsystems is None)
        self._wanted = _library.bits(subsystems, counters) | bits
        if by_part:
            self._wanted |= ON_REQUEST_BY_PART
        self._words = self._parts = None
        self._reason: int = Reason.NO_TOKEN

    def __repr__(self) -> str:
        if self._words is None:
            return f"<weigh.Account token={self._token}, not read{f': {self.why}' if self.why else ''}>"
        why = f", not measured: {self.why}" if self.why else ""
        return f"<weigh.Account token={self._token} {self._said()}{why}>"

    def __enter__(self) -> "Account":
        if self._unknown:
            # An agent that has them may have come meanwhile.
            bits, self._unknown = _library.own_bits(self._unknown, False)
            self._wanted |= bits
        self._reason = library.weigh_begin(_library.handle(), self._token, self._wanted)
        return self

    def __exit__(self, *error: object) -> None:
        # An interval that was refused because another is open is not this one's to end.
        if not self._was_refused():
            library.weigh_end(_library.handle())
        self._find()

    def _find(self) -> None:
        self._words = _library.words(library.weigh_read(_library.handle(), self._token))
        self._parts = _library.part_words(library.weigh_read_parts(_library.handle(), self._token))

    def _part_words(self) -> Optional[_library.Words]:
        return self._parts

    def _missing(self) -> frozenset[str]:
        return self._unknown

    def _was_refused(self) -> bool:
        return self._reason in (Reason.BUSY, Reason.NO_ACCOUNT)

    def _lacking(self) -> int:
        return self._number(UNMEASURED) | (self._wanted if self._was_refused() else 0)

    def _why_lacking(self, bit: int) -> int:
        if self._reason and (self._words is None or self._lacking() & bit):
            return self._reason
        return super()._why_lacking(bit)

    @property
    def token(self) -> int:
        """Its number."""
        return self._token

    @property
    def why(self) -> Optional[str]:
        """Why the last interval was not measured, or that there was none; None if it was."""
        return _library.text(self._reason) if self._reason else None

    @property
    def settled(self) -> Optional[bool]:
        """Whether all that the calls caused has come to its end, and is in :attr:`later`, less what found no room.

        None if nothing was measured, so that it is not known: without an agent, or without an account.
        """
        found = library.weigh_settled(_library.handle(), self._token)
        return None if found < 0 else bool(found)

    def wait(self, timeout: Optional[float] = None) -> Optional[bool]:
        """Waits until it has settled, at most so many seconds; whether it has.

        None, at once, where that is not known: see :attr:`settled`. The agent looks every 20 ms at first, later
        each second.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while (settled := self.settled) is False:
            left = 0.05 if until is None else min(0.05, until - time.monotonic())
            if left <= 0:
                return False
            library.weigh_watch(_library.handle(), self._token)
            descriptor = library.weigh_descriptor(_library.handle())
            if descriptor < 0:
                time.sleep(left)
                continue
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            # Another thread may take the news: so it is looked again before long.
            if poll.poll(left * 1000):
                library.weigh_dispatch(_library.handle(), _nothing, None)
        return settled

    def watch(self) -> Optional[str]:
        """Has :func:`descriptor` be readable when it has settled. Why not, if so."""
        reason = library.weigh_watch(_library.handle(), self._token)
        return _library.text(reason) if reason else None

    def limit(self, number: str, value: float) -> Optional[str]:
        """Has :func:`descriptor` be readable when a number has reached a value: ``a.limit("block.written_bytes_total",
        100 << 20)``, ``a.limit("sched.run_queue_seconds", 1.5)``. :func:`passed` tells of it, once. Why not, if so.

        Of the same number there is one limit, which takes the place of the one before; a process has 32.
        """
        return _limits.limit(self._token, number, value)

    def unlimit(self, number: str) -> None:
        """Takes a limit back."""
        _limits.unlimit(self._token, number)

    def release(self) -> None:
        """Gives the account back: a process has 1,024. Its numbers are gone then."""
        self._words = self._parts = None
        self._reason = Reason.NO_TOKEN
        library.weigh_release(_library.handle(), self._token)


_nothing = SettledCallback(lambda token, account, data: None)


def account(
    token: Token,
    subsystems: Optional[Iterable[str]] = None,
    counters: Iterable[str] = (),
    own: Optional[Iterable[str]] = None,
    by_part: bool = False,
) -> Account:
    """Accounts for what this thread does in a ``with`` block.

    ``subsystems`` are the parts of the kernel wanted, of :data:`SUBSYSTEMS`; all by default. ``counters``
    are those of the CPU, of :data:`COUNTERS`; none by default, for reading them takes microseconds in a
    virtual machine. ``own`` are the parts that the agent's configuration defines, by their names there; all if
    ``subsystems`` is not given either. ``by_part`` has allocations, and these counters, told of each part, too
    (:meth:`Account.by_part`): then they are read wherever a part is entered or left. Which there are depends on the agent: what it does not have is in
    ``unmeasured``. Raises ValueError for other names of parts that are built in, and of counters, TypeError for what
    is no token or no collection of names, and nothing for whatever keeps it from measuring: see ``why``.
    """
    return Account(token, subsystems, counters, own, by_part)


def token(of: Token) -> int:
    """The number of a token, which is what the agent, ``weigh calls`` and ``weigh explain`` know it by.

    Of a text it is made by hashing (blake2b, 8 bytes), the same in each process, and there is no way back: a program
    that has to find its texts again notes them with their numbers.
    """
    return _library.token(of)


def descriptor() -> Optional[int]:
    """A descriptor that is readable (select, epoll, asyncio) when a watched account has settled, or a limit is passed: see
    :meth:`Account.watch` and :meth:`Account.limit`. It is libweigh's to close. None if no agent serves the process.
    """
    found = library.weigh_descriptor(_library.handle())
    return found if found >= 0 else None


def dispatch() -> list[int]:
    """The tokens that were watched and have settled since the last time; makes the descriptor unreadable."""
    told: list[int] = []
    library.weigh_dispatch(
        _library.handle(), SettledCallback(lambda token, account, data: told.append(token)), None
    )
    return told


def why() -> Optional[str]:
    """Why this thread is not measured; None if it is."""
    reason = library.weigh_why(_library.handle())
    return reason.decode() if reason else None


def refused() -> int:
    """How many accounts were asked for when all of the process's were taken: see :meth:`Account.release`."""
    return int(library.weigh_refused(_library.handle()))


def subsystems() -> frozenset[str]:
    """The parts of the kernel, and counters, that the agent sees; empty if there is none."""
    return part_names(library.weigh_subsystems(_library.handle()))


def own_parts() -> frozenset[str]:
    """The names of the parts that the agent's configuration defines, as they were first found in this process."""
    return frozenset(_library.own_parts())


def want(
    subsystems: Optional[Iterable[str]],
    counters: Iterable[str] = (),
    own: Optional[Iterable[str]] = None,
) -> Optional[str]:
    """Says which parts of the kernel the program wants from now on; None: all. Why not, if so.

    Without it the first account that wants a part waits until it is attached.
    """
    bits, unknown = _library.own_bits(own, subsystems is None)
    reason = library.weigh_want(_library.handle(), _library.bits(subsystems, counters) | bits)
    if reason:
        return _library.text(reason)
    return why_unknown(min(unknown)) if unknown else None


def why_part(subsystem: str) -> Optional[str]:
    """Why a part of the kernel, or a counter, is not measured now; None if it is."""
    return _library.why_text(bit_of(subsystem).bit_length() - 1) or None


class _Read(Numbers):
    """An account of another process."""

    __slots__ = ()

    def __init__(self, address: Optional[int]) -> None:
        self._words = _library.words(address)

    def __repr__(self) -> str:
        return f"<weigh._Read token={self.token} {self._said()}>"

    @property
    def token(self) -> int:
        """Its number."""
        return self._number(0)


#: What is raised; OSError itself for limits, and for what the kernel refuses.
_PEER_ERRORS: dict[int, Type[Exception]] = {
    Reason.NO_SERVER: ConnectionError,
    Reason.GONE: ConnectionError,
    Reason.OTHER_VERSION: ConnectionError,
    Reason.NOT_UNDERSTOOD: ConnectionError,
    Reason.NOT_PERMITTED: PermissionError,
    Reason.NO_RIGHTS: PermissionError,
    Reason.NO_PROCESS: ProcessLookupError,
    Reason.NO_MEMORY: MemoryError,
}


class Peer:
    """The accounts of another process. See :func:`peer`."""

    def __init__(self, pid: int) -> None:
        self._peer, reason = _library.open_peer(pid)
        if not self._peer:
            kind = _PEER_ERRORS.get(reason, OSError)
            raise kind(f"process {pid}: {_library.text(reason)}")

    def read(self, token: Token) -> Optional[_Read]:
        """The account of a token; None if there is none."""
        found = library.weigh_peer_read(self._peer, _library.token(token))
        return _Read(found) if found else None

    def __iter__(self) -> Iterator[_Read]:
        position = _library.Position(0)
        while found := library.weigh_peer_next(self._peer, position):
            yield _Read(found)

    def close(self) -> None:
        """Accounts that were read must not be used after it."""
        if self._peer:
            library.weigh_peer_close(self._peer)
        self._peer = None

    def __enter__(self) -> "Peer":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def peer(pid: int) -> Peer:
    """The accounts of another process: of the same user, or of any with CAP_PERFMON.

    They are a copy that the agent renews every 20 ms. Raises ProcessLookupError if that process
    is not measured, ConnectionError if there is no agent, PermissionError if it is another user's, and OSError
    for limits, such as 64 peers at once: each with the reason.
    """
    return Peer(pid)

"""What a program's own system calls cost in each part of the kernel, read while it runs.

    import weigh

    with weigh.account("request-17") as a:
        os.fsync(file)
    print(a.block.device_seconds, a.sched.waiting_seconds)

All that is measured under the same token, in whatever thread, is added up in one account. The
rights to measure are those of an agent of weigh (``weigh agent``); where none answers, all of this
works, ``a.why`` says why nothing is measured, and only ``calls`` and ``time_seconds`` are filled.

An account is for a thread: what other tasks of an event loop do on the same thread meanwhile is in
it too.
"""

from __future__ import annotations

import select
import time
from types import TracebackType
from typing import Iterable, Iterator, Optional, Type, Union

from . import _library
from ._fields import (
    CALLS,
    COUNTED,
    COUNTERS,
    COUNTING,
    SUBSYSTEMS,
    TIME,
    TOUCHED,
    UNMEASURED,
    Parts,
)
from ._library import SettledCallback, library
from ._trace import Event, Trace, trace

__all__ = [
    "COUNTERS",
    "SUBSYSTEMS",
    "Account",
    "Event",
    "Peer",
    "Trace",
    "account",
    "descriptor",
    "dispatch",
    "peer",
    "refused",
    "subsystems",
    "trace",
    "want",
    "why",
    "why_part",
]

#: What names an account: a number below 2**64, or a text, of which a number is made.
Token = Union[int, str, bytes]


def _names(bits: int) -> frozenset[str]:
    places = {name: bit for bit, name in enumerate(SUBSYSTEMS)}
    places.update((name, bit) for name, (_, bit) in COUNTERS.items())
    return frozenset(name for name, bit in places.items() if bits >> bit & 1)


class _Numbers(Parts):
    """An account's numbers: they change while they are read."""

    __slots__ = ("_words",)

    _words: Optional[_library.Words]

    def _number(self, index: int) -> int:
        return self._words[index] if self._words is not None else 0

    @property
    def calls(self) -> int:
        """Calls, or intervals, that are added up."""
        return self._number(CALLS)

    @property
    def time_seconds(self) -> float:
        """From their beginnings to their ends."""
        return self._number(TIME) / 1e9

    def _counter(self, name: str) -> Optional[int]:
        index, bit = COUNTERS[name]
        counting, counted = self._number(COUNTING), self._number(COUNTED)
        if not self._number(TOUCHED) >> bit & 1 or not counted:
            return None
        count = self._number(index)
        return count * counting // counted if counted < counting else count

    @property
    def cycles(self) -> Optional[int]:
        """Cycles of the CPU while the thread had it; None if they were not counted."""
        return self._counter("cycles")

    @property
    def instructions(self) -> Optional[int]:
        """Instructions that were done meanwhile; None if they were not counted."""
        return self._counter("instructions")

    @property
    def counted_ratio(self) -> Optional[float]:
        """In which part of the time counters did count: if it is below 1, they are estimates."""
        counting = self._number(COUNTING)
        return min(1.0, self._number(COUNTED) / counting) if counting else None

    @property
    def touched(self) -> frozenset[str]:
        """The parts of the kernel that were seen."""
        return _names(self._number(TOUCHED))

    @property
    def unmeasured(self) -> frozenset[str]:
        """Parts that were wanted while nobody measured them: what they have is too little."""
        return _names(self._number(UNMEASURED))


class Account(_Numbers):
    """An account of this process; a context manager that opens an interval. See :func:`account`."""

    __slots__ = ("_reason", "_token", "_wanted")

    def __init__(
        self,
        token: Token,
        subsystems: Optional[Iterable[str]] = None,
        counters: Iterable[str] = (),
    ) -> None:
        self._token = _library.token(token)
        self._wanted = _library.bits(subsystems, counters)
        self._words = None
        self._reason = 0

    def __repr__(self) -> str:
        if self._words is None:
            return f"<weigh.Account token={self._token}, not read>"
        why = f", not measured: {self.why}" if self.why else ""
        return (
            f"<weigh.Account token={self._token} calls={self.calls} "
            f"time_seconds={self.time_seconds} touched={sorted(self.touched)}{why}>"
        )

    def __enter__(self) -> "Account":
        self._reason = library.weigh_begin(_library.handle(), self._token, self._wanted)
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        # An interval that was refused because another is open is not this one's to end.
        if self._reason not in (_library.BUSY, _library.NO_ACCOUNT):
            library.weigh_end(_library.handle())
        self._find()

    def _find(self) -> None:
        self._words = _library.words(library.weigh_read(_library.handle(), self._token))

    @property
    def token(self) -> int:
        """Its number."""
        return self._token

    @property
    def why(self) -> Optional[str]:
        """Why the last interval was not measured; None if it was."""
        return _library.text(self._reason) if self._reason else None

    @property
    def settled(self) -> bool:
        """Whether all that the calls caused has come to its end, and is in :attr:`later`."""
        return library.weigh_settled(_library.handle(), self._token) != 0

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until it has settled, at most so many seconds; whether it has.

        The agent looks every 20 ms at first, later each second.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while not self.settled:
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
        return True

    def watch(self) -> Optional[str]:
        """Has :func:`descriptor` be readable when it has settled. Why not, if so."""
        reason = library.weigh_watch(_library.handle(), self._token)
        return _library.text(reason) if reason else None

    def release(self) -> None:
        """Gives the account back: a process has 1,024. Its numbers must not be read after that."""
        self._words = None
        library.weigh_release(_library.handle(), self._token)


_nothing = SettledCallback(lambda token, account, data: None)


def account(
    token: Token,
    subsystems: Optional[Iterable[str]] = None,
    counters: Iterable[str] = (),
) -> Account:
    """Accounts for what this thread does in a ``with`` block.

    ``subsystems`` are the parts of the kernel wanted, of :data:`SUBSYSTEMS`; all by default. ``counters``
    are those of the CPU, of :data:`COUNTERS`; none by default, for reading them takes microseconds in a
    virtual machine. Raises ValueError for other names, and nothing for whatever keeps it from measuring:
    see ``why``.
    """
    return Account(token, subsystems, counters)


def descriptor() -> Optional[int]:
    """A descriptor that is readable (select, epoll, asyncio) when a watched account has settled: see
    :meth:`Account.watch`. It is libweigh's to close. None if no agent serves the process.
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
    return _names(library.weigh_subsystems(_library.handle()))


def want(
    subsystems: Optional[Iterable[str]], counters: Iterable[str] = ()
) -> Optional[str]:
    """Says which parts of the kernel the program wants from now on; None: all. Why not, if so.

    Without it the first account that wants a part waits until it is attached.
    """
    reason = library.weigh_want(_library.handle(), _library.bits(subsystems, counters))
    return _library.text(reason) if reason else None


def why_part(subsystem: str) -> Optional[str]:
    """Why a part of the kernel, or a counter, is not measured now; None if it is."""
    is_counter = subsystem in COUNTERS
    wanted = _library.bits([] if is_counter else [subsystem], [subsystem] if is_counter else [])
    place = wanted.bit_length() - 1
    reason = library.weigh_why_part(_library.handle(), place)
    return _library.text(reason) if reason else None


class _Read(_Numbers):
    """An account of another process."""

    __slots__ = ()

    def __init__(self, address: Optional[int]) -> None:
        self._words = _library.words(address)

    @property
    def token(self) -> int:
        """Its number."""
        return self._number(0)


#: What is raised for reasons that are not a want of rights.
_PEER_ERRORS = {
    _library.NO_PROCESS: ProcessLookupError,
    _library.NO_SERVER: ConnectionError,
    _library.GONE: ConnectionError,
}


class Peer:
    """The accounts of another process. See :func:`peer`."""

    def __init__(self, pid: int) -> None:
        self._peer, reason = _library.open_peer(pid)
        if not self._peer:
            kind = _PEER_ERRORS.get(reason, PermissionError)
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

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def peer(pid: int) -> Peer:
    """The accounts of another process: of the same user, or of any with CAP_PERFMON.

    They are a copy that the agent renews every 20 ms. Raises ProcessLookupError if that process
    is not measured, ConnectionError if there is no agent, and PermissionError otherwise, each with the reason.
    """
    return Peer(pid)

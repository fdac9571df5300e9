"""The numbers of an account, as they lie in memory that the agent writes; and why one of them is not known."""

from __future__ import annotations

from typing import Optional

from . import _library
from ._fields import (
    BY_PART,
    CALLS,
    COUNTED,
    COUNTERS,
    COUNTING,
    LATER_PARTS,
    LOST,
    OWN,
    PART,
    PARTS,
    SUBSYSTEMS,
    TIME,
    TOUCHED,
    UNMEASURED,
    WANTED,
    ByPart,
    Parts,
    Reason,
)
from ._library import library

_PLACES = {name: bit for bit, name in enumerate(SUBSYSTEMS)}
_PLACES.update((name, bit) for name, (_, bit) in COUNTERS.items())


def part_names(bits: int) -> frozenset[str]:
    own = _library.own_parts()
    places = {**_PLACES, **{name: part.place for name, part in own.items()}} if own else _PLACES
    return frozenset(name for name, bit in places.items() if bits >> bit & 1)


def bit_of(part: str) -> int:
    """The bit of a part that is built in, of a counter, or of a part of the agent's configuration."""
    if own := _library.own_parts().get(part):
        return 1 << own.place
    is_counter = part in COUNTERS
    return _library.bits([] if is_counter else [part], [part] if is_counter else [])


def _no_room(lost: int) -> str:
    """Why sums of what came later are too small."""
    things = "1 thing" if lost == 1 else f"{lost} things"
    return f"{things} left behind found no room: what came of that is missing in `later`"


def _why_not_then(bit: int) -> int:
    """Why nobody measured a part when it was wanted: what is lacking for good was lacking then."""
    now: int = library.weigh_why_part(_library.handle(), bit.bit_length() - 1)
    return now if now in _FOR_GOOD else Reason.NOT_THEN


#: Why a part is lacking as long as this agent serves.
_FOR_GOOD = (Reason.NO_COUNTER, Reason.NOT_SEEN, Reason.REMOVED, Reason.OTHER_PARTS)


def _text(reason: int, bit: int) -> str:
    """Why a part is not measured; with what the agent says of it, if it is the agent who does not see it."""
    if reason in (Reason.REMOVED, Reason.NOT_SEEN):
        place = bit.bit_length() - 1
        if library.weigh_why_part(_library.handle(), place) == reason:
            return _library.why_text(place)
    return _library.text(reason)


def why_unknown(name: str) -> str:
    """Why a part of a configuration is not there."""
    if reason := library.weigh_why(_library.handle()):
        return reason.decode()
    known = ", ".join(sorted(_library.own_parts())) or "none"
    return f"the agent's configuration defines no part {name!r}; it defines {known}"


class OwnPart:
    """A part of the kernel that the agent's configuration defines, of one account. What is not known is None.

    What is captured at its border has the name that it has in the file, with ``_total``: ``bytes_total``.
    """

    __slots__ = ("_name", "_of")

    def __init__(self, of: "Numbers", name: str) -> None:
        self._of, self._name = of, name

    def __repr__(self) -> str:
        part = _library.own_parts().get(self._name)
        sums = [f"{name}_total" for name in part.numbers if "." not in name] if part else []
        names = ["time_seconds", "waiting_seconds", "entries_total", *sums]
        names += ["later_total", "later_seconds"] if part and len(sums) < len(part.numbers) else []
        numbers = " ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"<weigh.OwnPart {self._name} {numbers}>"

    def _part(self, offset: int) -> Optional[int]:
        part = _library.own_parts().get(self._name)
        return self._of._count(PARTS + part.place * PART + offset, 1 << part.place) if part else None

    @property
    def time_seconds(self) -> Optional[float]:
        """On a CPU in this part, less what other parts took that it called."""
        number = self._part(0)
        return None if number is None else number / 1e9

    @property
    def waiting_seconds(self) -> Optional[float]:
        """Off the CPU for this part, less waiting for a CPU."""
        number = self._part(1)
        return None if number is None else number / 1e9

    @property
    def entries_total(self) -> Optional[int]:
        """Times it was entered."""
        return self._part(2)

    @property
    def later_total(self) -> Optional[int]:
        """How often something was done for the account when its calls had returned; None if the file has no ``later``."""
        return self._later(f"later.{self._name}")

    @property
    def later_seconds(self) -> Optional[float]:
        """How long that took."""
        number = self._later(f"later.{self._name}_ns")
        return None if number is None else number / 1e9

    def _later(self, name: str) -> Optional[int]:
        part = _library.own_parts().get(self._name)
        if not part or name not in part.numbers:
            return None
        return self._of._later_count(OWN + part.numbers[name][0], 1 << part.place)

    def __getattr__(self, key: str) -> Optional[int]:
        name = key.removesuffix("_total")
        if key.startswith("_") or name == key:
            raise AttributeError(f"{self._name} has no number {key!r}")
        part = _library.own_parts().get(self._name)
        if not part:
            return None
        if name not in part.numbers:
            known = ", ".join(f"{name}_total" for name in part.numbers if "." not in name)
            raise AttributeError(f"{self._name} has no number {key!r}; captured are {known or 'none'}")
        return self._of._count(OWN + part.numbers[name][0], 1 << part.place)


class _PartSource:
    """What an account has of one part on request."""

    __slots__ = ("_of", "_start")

    def __init__(self, of: "Numbers", place: int) -> None:
        self._of, self._start = of, place * BY_PART

    def _count(self, index: int, parts: int) -> Optional[int]:
        words = self._of._part_words()
        if words is None:
            return None
        number, measured = words[self._start + index], self._of._measured()
        return number if number or measured & parts == parts else None

    def _seconds(self, index: int, parts: int) -> Optional[float]:
        raise NotImplementedError

    def _later_count(self, index: int, parts: int) -> Optional[int]:
        raise NotImplementedError

    def _later_seconds(self, index: int, parts: int) -> Optional[float]:
        raise NotImplementedError


class Numbers(Parts):
    """An account's numbers: they change while they are read."""

    __slots__ = ("_words",)

    _words: Optional[_library.Words]

    def _number(self, index: int) -> int:
        return self._words[index] if self._words is not None else 0

    def _part_words(self) -> Optional[_library.Words]:
        """What it has of each part; only this process's own accounts have that."""
        return None

    def _lacking(self) -> int:
        return self._number(UNMEASURED)

    def _measured(self) -> int:
        """The parts of which a 0 says that there was nothing."""
        return (self._number(TOUCHED) | self._number(WANTED)) & ~self._lacking()

    def _count(self, index: int, parts: int) -> Optional[int]:
        """A number that is known where these parts were looked into, or any if none is named."""
        number, measured = self._number(index), self._measured()
        is_known = measured & parts == parts if parts else measured
        return number if number or is_known else None

    def _seconds(self, index: int, parts: int) -> Optional[float]:
        number = self._count(index, parts)
        return None if number is None else number / 1e9

    def _later_count(self, index: int, parts: int) -> Optional[int]:
        """What came later: of what found no room nothing is known, and it may be all there was."""
        number = self._count(index, parts)
        return None if self._number(LOST) and not number else number

    def _later_seconds(self, index: int, parts: int) -> Optional[float]:
        number = self._later_count(index, parts)
        return None if number is None else number / 1e9

    def why_part(self, part: str) -> Optional[str]:
        """Why a part of the kernel, or a counter, is not known, or has too little; None if all of it is.

        What comes later of a part is of it, too: of what found no room it is missing.
        """
        if part in self._missing() and part not in _library.own_parts():
            return why_unknown(part)
        bit = bit_of(part)
        if not self._measured() & bit:
            return _text(self._why_lacking(bit), bit)
        lost = self._number(LOST) if LATER_PARTS & bit else 0
        return _no_room(lost) if lost else None

    def _why_lacking(self, bit: int) -> int:
        return _why_not_then(bit) if self._lacking() & bit else Reason.NOT_WANTED

    def _missing(self) -> frozenset[str]:
        """Parts that were asked for and that there are not: see :func:`own_parts`."""
        return frozenset()

    def own(self, name: str) -> OwnPart:
        """The numbers of a part that the agent's configuration defines; all None if it defines no such part."""
        return OwnPart(self, name)

    def by_part(self, part: str) -> ByPart:
        """What the code of a part did itself, if that was asked for; all None if it was not.

        Raises ValueError for a part that there is not, built in or of the agent's configuration.
        """
        own = _library.own_parts().get(part)
        return ByPart(_PartSource(self, own.place if own else bit_of(part).bit_length() - 1))

    def _said(self) -> str:
        lost = self._number(LOST)
        low = f", {_no_room(lost)}" if lost else ""
        return f"calls={self.calls} time_seconds={self.time_seconds} touched={sorted(self.touched)}{low}"

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
        return part_names(self._number(TOUCHED))

    @property
    def unmeasured(self) -> frozenset[str]:
        """Parts that were wanted while nobody measured them: what they have is too little, or None."""
        return part_names(self._lacking()) | self._missing()

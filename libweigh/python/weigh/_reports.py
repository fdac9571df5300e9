"""Reports of a ``weigh trace`` that runs: what several events say together."""

from __future__ import annotations

import ctypes
import json
import time
from typing import Any, Dict, Iterator, Optional, Union

from . import _library
from ._library import library

_GONE = 2


class Reports:
    """A reader of reports; iterate over it. See :func:`reports`."""

    def __init__(self, stream: Union[int, str], every: float) -> None:
        reason, every_ms = ctypes.c_int(), round(every * 1000)
        if isinstance(stream, int):
            self._reports = library.weigh_reports_open(stream, every_ms, ctypes.byref(reason))
        else:
            path = stream.encode()
            self._reports = library.weigh_reports_open_at(path, every_ms, ctypes.byref(reason))
        if not self._reports:
            raise OSError(f"stream {stream}: {_library.text(reason.value)}")

    def next(self, timeout: Optional[float] = None) -> Optional[Dict[str, Any]]:
        """The next report; None if there is none after so many seconds, or the stream has ended (``ended``)."""
        until = None if timeout is None else time.monotonic() + timeout
        left = -1 if until is None else max(0, int((until - time.monotonic()) * 1000))
        found = library.weigh_reports_next(self._reports, left)
        return json.loads(found) if found else None

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        while (report := self.next()) is not None:
            yield report

    @property
    def ended(self) -> bool:
        """Whether the stream has ended, and all was read."""
        return library.weigh_reports_why(self._reports) == _GONE

    def fileno(self) -> int:
        """For select and poll: readable when there may be a report."""
        return library.weigh_reports_fd(self._reports)

    def close(self) -> None:
        """Takes leave of the stream, which goes on."""
        if self._reports:
            library.weigh_reports_close(self._reports)
        self._reports = None

    def __enter__(self) -> "Reports":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def reports(stream: Union[int, str], *, every: float = 1.0) -> Reports:
    """What several events of a ``weigh trace`` say together (``--latency``, ``--rate``, ``--top``, …), while it runs.

    The stream is named by its process, or by the path of its socket. A report is a dict of ``weigh.synthesis/1``; one
    comes every so many seconds (0.1 at least), and a last one when the stream ends. ``reports_missed_total`` says how
    many this reader was too slow for. Raises OSError, with the reason, if there is no such stream, or it makes none.
    """
    return Reports(stream, every)

"""Signals that end a program, as an exception: ``with`` blocks unwind and their temporaries go."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows has no SIGHUP

# Many launchers send a signal twice, once to the program and once to its group. The second must not cut short
# the clean-up that the first began; a user who insists later than this is heard again.
_GRACE_SECONDS = 1.0


class Interrupted(BaseException):
    """A signal asked the program to end; no Exception, lest a handler for errors holds it up.

    signum: the signal.
    exit_code: what the program leaves with, 128 + signum, as shells report it.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(signum).name}")
        self.signum = signum
        self.exit_code = 128 + signum


_lost: list[Interrupted] = []  # what was raised, as long as nobody is known to have caught it


def raise_lost() -> None:
    """Raise an Interrupted again that did not get through: callbacks from C, as the compiler has them, swallow it."""
    if _lost and threading.current_thread() is threading.main_thread():
        raise _lost.pop()


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise Interrupted in the block on SIGINT, SIGTERM or SIGHUP.

    A signal that is ignored, as nohup leaves it, stays ignored. Outside the main thread, where Python runs no
    signal handlers, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deaf_until = 0.0

    def interrupt(signum: int, frame: FrameType | None) -> None:
        nonlocal deaf_until
        now = time.monotonic()
        if now >= deaf_until:
            deaf_until = now + _GRACE_SECONDS
            _lost[:] = [Interrupted(signum)]
            raise _lost[0]

    previous = {}
    try:
        for name in _NAMES:
            signum = getattr(signal, name, None)
            if signum is not None and signal.getsignal(signum) not in (signal.SIG_IGN, None):
                previous[signum] = signal.signal(signum, interrupt)
        yield
    finally:
        _lost.clear()
        for signum, handler in previous.items():
            signal.signal(signum, handler)

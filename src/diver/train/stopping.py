"""SIGTERM as a request: what is being done is finished and saved."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def sigterm() -> Iterator[threading.Event]:
    """The event is set by SIGTERM, by which Slurm and others announce the end of a job; a second one ends the process."""
    received = threading.Event()

    def receive(*_: Any) -> None:
        received.set()
        signal.signal(signal.SIGTERM, before)

    if threading.current_thread() is not threading.main_thread():  # only there may it be handled
        yield received
        return
    before = signal.signal(signal.SIGTERM, receive)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)

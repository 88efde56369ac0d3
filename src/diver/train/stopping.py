"""SIGTERM and Ctrl-C as a request: the step in progress is finished and saved before the process ends."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

SIGNALS = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}
NOTICE = "Ctrl-C: stops after this step and saves it; press Ctrl-C again to stop at once\n"


class Stop(threading.Event):
    """Set by the first signal; `signal` is its number."""

    signal: int = 0

    @property
    def name(self) -> str:
        return SIGNALS[signal.Signals(self.signal)]

    @property
    def exit_code(self) -> int:
        """143 after SIGTERM and 130 after Ctrl-C, by the shell's convention."""
        return 128 + self.signal

    def end(self, step: int, steps: int, folder: Path) -> NoReturn:
        """Print what is saved and how to resume, and end the process."""
        saved = f"saved in {folder}/checkpoints/step_{step:04d}" if step else "nothing to save"
        tqdm.write(f"{self.name}: stopped after step {step} of {steps}, {saved}; {how_to_resume()}")
        raise SystemExit(self.exit_code)


@contextmanager
def stop_request(stop: Stop | None = None) -> Iterator[Stop]:
    """An event, by default a new one, that SIGTERM or Ctrl-C (SIGINT) sets.

    Slurm and other schedulers announce the end of a job by SIGTERM.
    After either signal, Ctrl-C raises KeyboardInterrupt, and SIGTERM has no further effect: a scheduler may send it to
    a process twice. A signal that was ignored stays ignored.
    """
    stop = stop or Stop()

    def receive(number: int, _: Any) -> None:
        if stop.is_set():
            if number == signal.SIGINT:
                raise KeyboardInterrupt
            return
        stop.signal = number
        stop.set()
        if number == signal.SIGINT:
            with contextlib.suppress(OSError):  # unbuffered: the signal may have interrupted a buffered write
                os.write(2, b"\n" + NOTICE.encode())

    if threading.current_thread() is not threading.main_thread():  # Python handles signals only in the main thread
        yield stop
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    handled = [number for number, handler in before.items() if handler != signal.SIG_IGN]
    for number in handled:
        signal.signal(number, receive)
    try:
        yield stop
    finally:
        for number in handled:
            signal.signal(number, before[number])


def how_to_resume() -> str:
    """How to resume, in words: by the command line of this process without --restart, which would begin anew."""
    restarts = any(word.partition("=")[0] == "--restart" for word in sys.argv[1:])
    return f"the same command{' without --restart' * restarts} resumes"

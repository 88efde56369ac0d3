"""The only place that makes progress bars. A terminal shows a moving bar, a log file a line now and then."""

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from tqdm import tqdm

T = TypeVar("T")
QUIET = "TQDM_DISABLE"
"""tqdm's own variable. The flag --quiet sets it, child processes inherit it, and other libraries' bars obey it too."""
SECONDS = 60.0  # between two lines of a log file


class _Lines(tqdm):
    """A bar that prints a line at most every SECONDS, and none for work that ends before."""

    _shown = 0.0

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        self._shown = self._shown or time.monotonic()
        if msg is None and time.monotonic() - self._shown >= SECONDS:
            self._shown = time.monotonic()
            self.fp.write(f"{self}\n")
            self.fp.flush()
        return False

    def clear(self, nolock: bool = False) -> None:
        """Do nothing: printed lines stay."""


def progress_bar(
    total: int, title: str, unit: str, *, done: int = 0, keep: bool = False, show: bool = True, bursts: bool = False
) -> tqdm:
    """A bar on standard error for `total` units, of which `done` are done. `keep` leaves the bar there at the end.

    With `bursts`, many units arrive at once after a long wait. The last of them is drawn too. The remaining time
    follows the mean rate, since the rate within a burst is not that of the work.
    """
    terminal = sys.stderr.isatty()
    return (tqdm if terminal else _Lines)(
        total=total,
        initial=done,
        desc=title,
        unit=unit,
        leave=keep and terminal,
        dynamic_ncols=terminal,
        ncols=None if terminal else 0,
        disable=not show or bool(os.environ.get(QUIET)),
        **({"mininterval": 0.0, "miniters": 1, "smoothing": 0.0} if bursts else {}),
    )


def progress(
    items: Iterable[T], title: str, unit: str, *, done: int = 0, keep: bool = False, total: int | None = None
) -> Iterator[T]:
    """The items, with a bar that counts them after `done` earlier ones. `total` is their number if they have no
    length."""
    remaining = len(items) if isinstance(items, Sized) else total or 0
    with progress_bar(done + remaining, title, unit, done=done, keep=keep) as bar:
        for item in items:
            yield item
            bar.update()

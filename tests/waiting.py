"""Waiting for another process. The limit ends a test that hangs; it is far above what the slowest machine needs."""

import time

HANGS_S = 600.0


def until(happened, process=None):
    """Waits until `happened()` is true. RuntimeError if the process ends first, or if it never happens."""
    tries_until = time.monotonic() + HANGS_S
    while not happened():
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the process ended before, with code {process.returncode}")
        if time.monotonic() > tries_until:
            raise RuntimeError(f"it did not happen within {HANGS_S:g} seconds")
        time.sleep(0.01)

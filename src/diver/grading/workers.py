"""Worker processes that grade untrusted text and can be killed.

A degenerate answer can keep SymPy busy for ever or fill the machine's memory. A thread cannot be stopped, and an alarm
inside the process neither works outside the main thread nor interrupts C code. So each job runs in one of a few
persistent processes that run `serve.py`. They are plain subprocesses (no fork of a parent that has torch threads, no
second run of its `__main__`), with a limit on their address space. A process that is late is killed and replaced; one
that dies costs only its own job.

Nothing has to be cleaned up. An idle worker ends when its pipe closes. A busy one is ended by its alarm soon after the
timeout; the default action of the alarm does not need Python. Both also hold if the parent is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from diver.core.types import DiverError, Grade
from diver.grading import serve

STARTUP_SECONDS = 120.0  # imports SymPy and math-verify, which takes seconds, on a busy machine a minute


Function = Callable[..., Any] | str
"""A function of a module, or its path "module:name"."""


def path_of(function: Function) -> str:
    """The path by which a worker finds the function."""
    return function if isinstance(function, str) else f"{function.__module__}:{function.__qualname__}"


class Failure(NamedTuple):
    """The result of a job without a value: `grade` is timeout or error."""

    grade: Grade
    reason: str


class Worker:
    """One process and its pipes: `ready` once it has warmed up, `job` is the index of the job in flight."""

    def __init__(self, memory_mb: int, warm: str) -> None:
        options = json.dumps({"path": sys.path, "memory_mb": memory_mb, "warm": warm})
        self.process = subprocess.Popen(
            [sys.executable, "-P", serve.__file__, options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            process_group=0,
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.jobs, self.replies = self.process.stdin, self.process.stdout
        self.ready = False
        self.job: int | None = None
        self.late_at = time.monotonic() + STARTUP_SECONDS

    def send(self, job: int, call: str, arguments: Sequence[Any], timeout_s: float) -> bool:
        """Hand over a job; False if the process has already ended, so that the job is not to blame."""
        line = json.dumps({"call": call, "arguments": list(arguments), "timeout_s": timeout_s})
        try:
            self.jobs.write(line.encode() + b"\n")
            self.jobs.flush()
        except OSError:
            return False
        self.job, self.late_at = job, time.monotonic() + timeout_s
        return True

    def read(self) -> dict[str, Any] | None:
        """The next message; None when the process has died."""
        line = self.replies.readline()
        return json.loads(line) if line.endswith(b"\n") else None

    def end(self) -> None:
        """Kill the process and those that it started: a verifier may run a model's code in another process."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def kill(self) -> None:
        self.end()
        self.process.wait()
        self.replies.close()
        with contextlib.suppress(OSError):  # a job may not have been read to its end
            self.jobs.close()


def _cores() -> int:
    """The cores that this process may use, divided by the processes on its node if a launcher gives their number."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    processes = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, cores // max(1, int(processes) if processes.isdigit() else 1))


class Pool:
    """At most `workers` processes, started when there is work; a context manager; safe to use from any thread.

    The first process starts with the first job. Another one starts whenever jobs have waited for `patience` seconds: a
    start costs about half a second of a core, which a few short jobs do not repay. A lost process is replaced at once.

    `warm` is a function without arguments that every worker calls before its first job, or the name of a module that it
    imports. So imports that take a second do not count against a timeout. With a module, the worker also imports
    `custom`, which calls its functions. For a module outside this package, the worker imports the complete package.
    """

    def __init__(self, workers: int = 0, memory_mb: int = 900, warm: Function = "", *, patience: float = 0.5) -> None:
        self.limit = workers or min(8, _cores())
        self.memory_mb = memory_mb
        self.warm = path_of(warm)
        self.patience = patience
        self._grow_at = 0.0
        self._workers: list[Worker] = []
        self._failed_starts = 0
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pids(self) -> list[int]:
        return [w.process.pid for w in self._workers]

    def close(self) -> None:
        """Kill the workers. The pool may be used again."""
        if self._owner != os.getpid():  # a forked child must not kill its parent's workers
            return
        with self._lock:
            for worker in self._workers:
                worker.kill()
            self._workers = []

    def abandon(self) -> None:
        """Kill the workers without waiting for a `map` that is still running in another thread."""
        if self._owner == os.getpid():
            for worker in list(self._workers):
                worker.end()

    def map(self, function: Function, jobs: Sequence[Sequence[Any]], timeout_s: float) -> list[Any]:
        """`function(*job)` of every job, in order: its value, or a `Failure`.

        `timeout_s` counts from the moment an idle, warmed-up worker gets the job: waiting in the queue does not
        count. Arguments and values pass through JSON.
        """
        with self._lock:
            try:
                return self._run(path_of(function), jobs, timeout_s)
            finally:  # after an interrupt, a reply still to come would be taken for that of the next job
                for worker in [w for w in self._workers if w.job is not None]:
                    self._discard(worker)

    def _run(self, call: str, jobs: Sequence[Sequence[Any]], timeout_s: float) -> list[Any]:
        results: list[Any] = [None] * len(jobs)
        waiting = deque(range(len(jobs)))
        unfinished = len(jobs)
        self._grow_at = time.monotonic() + self.patience
        while unfinished:
            self._grow(unfinished)
            for worker in [w for w in self._workers if w.ready and w.job is None]:
                if waiting and not worker.send(waiting[0], call, jobs[waiting[0]], timeout_s):
                    self._discard(worker)
                elif waiting:
                    waiting.popleft()
            # No further worker starts while others are starting.
            may_grow = waiting and len(self._workers) < self.limit and all(w.ready for w in self._workers)
            for worker, heard in self._wait(self._grow_at if may_grow else math.inf):
                job, outcome = worker.job, self._outcome(worker, heard)
                if job is not None:
                    results[job] = outcome
                    unfinished -= 1
        return results

    def _grow(self, count: int) -> None:
        while len(self._workers) < min(self.limit, count) and (
            not self._workers
            or not self.patience
            or (all(w.ready for w in self._workers) and time.monotonic() >= self._grow_at)
        ):
            self._workers.append(Worker(self.memory_mb, self.warm))

    def _wait(self, until: float) -> list[tuple[Worker, bool]]:
        """Wait for workers that have replied or died (True), or are late (False); not longer than `until`."""
        busy = [w for w in self._workers if w.job is not None or not w.ready]
        if not busy:
            return []
        until = min(until, *(w.late_at for w in busy))
        with selectors.DefaultSelector() as selector:
            for worker in busy:
                selector.register(worker.replies, selectors.EVENT_READ, worker)
            events = selector.select(max(0.0, until - time.monotonic()))
        heard = [key.data for key, _ in events]
        now = time.monotonic()
        return [(w, w in heard) for w in busy if w in heard or now >= w.late_at]

    def _outcome(self, worker: Worker, heard: bool) -> Any:
        """The result of this worker's job, or of its start; a late or dead worker leaves the pool."""
        message = worker.read() if heard else None
        if message is None or "fatal" in message:
            if not worker.ready:
                reason = message["fatal"] if message else f"not ready after {STARTUP_SECONDS:g} seconds"
                if message is None and heard:  # read before the kill, which would set it to -9
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        worker.process.wait(10.0)
                    reason = f"exit code {worker.process.returncode}"
                self._discard(worker)
                self._failed_starts += 1
                if self._failed_starts == 3:  # one death may be chance (a signal, a full machine), three are a fault
                    self._failed_starts = 0
                    raise DiverError(
                        f"a verification worker did not start with {self.memory_mb} MiB of memory ({reason}); "
                        "raise verify.memory_mb, or repair the installation"
                    )
                return None
            self._discard(worker)
            self._workers.append(Worker(self.memory_mb, self.warm))
            if heard:
                return Failure(Grade.ERROR, "the worker died: out of memory, or a crash in native code")
            return Failure(Grade.TIMEOUT, "no grade within verify.timeout_s")
        if not worker.ready:
            self._grow_at = time.monotonic() + self.patience
        worker.ready, worker.job = True, None
        self._failed_starts = 0
        return Failure(Grade.ERROR, message["error"]) if "error" in message else message.get("value")

    def _discard(self, worker: Worker) -> None:
        worker.kill()
        self._workers.remove(worker)


_sharing = threading.Lock()


def shared_pool(workers: int = 0, memory_mb: int = 900, warm: Function = "") -> Pool:
    """The pool of this process with these settings: made at the first call, closed when the interpreter ends."""
    with _sharing:
        return _pool_of(os.getpid(), workers, memory_mb, warm)


@cache
def _pool_of(process: int, *settings: Any) -> Pool:
    pool = Pool(*settings)
    atexit.register(pool.abandon)
    return pool

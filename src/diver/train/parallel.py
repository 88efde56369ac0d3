"""Many runs at once, each in a separate process on one thread, with one progress bar for all of them.

After a kill, the same call continues: a process whose parent has died exits, and a run folder resumes.
"""

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

from diver.core.files import lock, make_folder
from diver.core.progress import progress_bar
from diver.core.tables import counted
from diver.core.types import DiverError
from diver.train.stopping import how_to_resume, stop_request

POLL_SECONDS = 0.5
_CHILD = "from diver.train.parallel import run_from_input; run_from_input()"


class ParallelRun(NamedTuple):
    """A run in a separate process.

    Attributes:
        name: the name of its log.
        call: what the process calls: a function at the top of a module, or `functools.partial` of one.
        folder: its metrics.jsonl has a row for each completed step.
        steps: the number of its steps; 0 for a run that trains nothing. If the run ends earlier, as one that diverges
            does, the bar no longer counts the remaining steps.
        watch: called in this process as `watch(ended)`, every POLL_SECONDS during the run and once after it.
    """

    name: str
    call: Callable[[], object]
    folder: Path
    steps: int
    watch: Callable[[bool], object] = lambda ended: None


def run_all(runs: Sequence[ParallelRun], logs: Path, workers: int) -> None:
    """Make the runs in order, `workers` at a time. The output of each goes to `logs`/NAME.log.

    SIGTERM and Ctrl-C are passed on to the running processes, which save and end. A second Ctrl-C kills them.

    Raises:
        DiverError: a run failed; names its log and the reason. The others are still made.
        SystemExit: the runs were ended by a signal.
    """
    if not runs:
        return
    make_folder(logs)
    waiting, running = list(runs), dict[ParallelRun, subprocess.Popen]()
    finished, failed = dict[str, int](), list[str]()  # the steps of each finished run
    # With the mean rate, the remaining time includes what runs do beside their steps, such as evaluations.
    total, done = sum(run.steps for run in runs), sum(map(_steps_done, runs))
    bar = progress_bar(total, "runs", "step", done=done, keep=True, bursts=True)
    stopped = False
    with lock(logs), bar, stop_request() as stop:
        try:
            while running or (waiting and not stopped):
                while waiting and len(running) < workers and not stopped:
                    run = waiting.pop(0)
                    running[run] = _start(run, logs)
                time.sleep(POLL_SECONDS)
                if stop.is_set() and not stopped:
                    stopped = True
                    for process in running.values():
                        process.terminate()
                for run, process in [*running.items()]:
                    ended = process.poll() is not None
                    run.watch(ended)
                    if ended:
                        del running[run]
                        if process.returncode:
                            failed.append(_failure(logs / f"{run.name}.log", process.returncode))
                        else:
                            finished[run.name] = _steps_done(run)
                status = f"{len(finished)} of {len(runs)} finished" + (f", {len(failed)} failed" if failed else "")
                bar.set_postfix_str(f"{status}; running {', '.join(run.name for run in running)}", refresh=False)
                bar.total = sum(finished.get(run.name, run.steps) for run in runs)
                bar.update(sum(finished.get(run.name, _steps_done(run)) for run in runs) - bar.n)
        finally:
            for process in running.values():
                process.kill()
                process.wait()
    if stopped:
        tqdm.write(f"{stop.name}: stopped; {len(finished)} of {counted(len(runs), 'run')} finished, {how_to_resume()}")
        raise SystemExit(stop.exit_code)
    if failed:
        counts = f"{len(failed)} of {counted(len(runs), 'run')} failed"
        raise DiverError(f"{counts} ({'; '.join(failed)}); the same command makes them again")


def _failure(log: Path, code: int) -> str:
    """The log of a failed run, and the reason: the exception in its last line, or the signal that killed it."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
    return f"{log}: {last if code > 0 else f'killed by signal {-code}'}"


def _start(run: ParallelRun, logs: Path) -> subprocess.Popen:
    with open(logs / f"{run.name}.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _CHILD, *sys.argv[1:]],  # the run folder records the command
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    assert process.stdin is not None
    process.stdin.write(pickle.dumps(run.call))
    process.stdin.flush()  # stays open, because the run exits when it is closed
    return process


def _steps_done(run: ParallelRun) -> int:
    path = run.folder / "metrics.jsonl"
    return min(run.steps, path.read_bytes().count(b"\n")) if path.exists() else 0


def run_from_input() -> None:
    """Make the call that standard input begins with, in the process of a run."""
    # A terminal sends Ctrl-C here, too; the parent passes it on as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    call = pickle.load(sys.stdin.buffer)
    # Standard input stays open as long as the parent lives: when it closes, this process exits.
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(1)), daemon=True).start()
    call()

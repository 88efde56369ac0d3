"""Many runs in parallel, each in a process of its own on one thread; finished runs are never made again.

Killed at any moment, the same command resumes: a finished run is a file, an unfinished one a run folder that resumes from
its last checkpoint, and a process whose sweep has died exits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from diver.config.recipe import make_recipe
from diver.io.files import lock
from diver.io.jsonl import to_json
from diver.io.progress import progress_bar
from diver.types import DiverError
from diver_paper.records import Job, find

POLL_SECONDS = 0.5
_WORKER = "from diver_paper.sweep import run_from_input; run_from_input()"


class Paths(NamedTuple):
    """`records` has the small files that are kept, `work` the run folders."""

    records: Path
    work: Path


def sweep(
    jobs: Iterable[Job], regime: Mapping[str, Any], paths: Paths, workers: int, provenance: Mapping[str, Any]
) -> None:
    """Make every run of `jobs` that has no record yet, `workers` at a time, in order.

    Where a run fails the others are still made; then DiverError names it and its log.
    """
    waiting = [job for job in {job.name: job for job in jobs}.values() if find(paths.records, job, regime) is None]
    if not waiting:
        return
    paths.work.mkdir(parents=True, exist_ok=True)
    lock_file = lock(paths.work)
    running: dict[str, subprocess.Popen] = {}
    failed: list[str] = []
    steps = int(regime["train"]["steps"])
    names = [job.name for job in waiting]
    trained = [job.name for job in waiting if job.trained]
    finished: list[str] = []
    bar = progress_bar(steps * len(trained), "runs", "step", keep=True)
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop(0)
                running[job.name] = _start(job, regime, paths, provenance)
            time.sleep(POLL_SECONDS)
            for name, process in [*running.items()]:
                if process.poll() is not None:
                    del running[name]
                    (failed if process.returncode else finished).append(name)
            state = f"{len(finished)} of {len(names)} finished" + (f", {len(failed)} failed" if failed else "")
            bar.set_postfix_str(f"{state}; running {', '.join(running)}", refresh=False)
            bar.update(sum(steps if n in finished else _steps_done(paths.work / n) for n in trained) - bar.n)
    finally:
        bar.close()
        for process in running.values():
            process.kill()
            process.wait()
        lock_file.close()
    if failed:
        logs = ", ".join(str(paths.work / f"{name}.log") for name in failed)
        raise DiverError(f"{len(failed)} of {len(names)} runs failed ({logs}); the same command makes them again")


def _start(job: Job, regime: Mapping[str, Any], paths: Paths, provenance: Mapping[str, Any]) -> subprocess.Popen:
    config = {
        **job._asdict(),
        "regime": regime,
        "folder": paths.work / job.name,
        "out": paths.records,
        "provenance": provenance,
    }
    with open(paths.work / f"{job.name}.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _WORKER],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    assert process.stdin is not None
    process.stdin.write(to_json(config).encode() + b"\n")
    process.stdin.flush()  # and left open: the run exits when it is closed
    return process


def _steps_done(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def run_from_input() -> None:
    """The run that standard input describes, which stays open as long as the sweep lives: when it closes, this exits."""
    given = json.loads(sys.stdin.readline())
    threading.Thread(target=_exit_with_the_sweep, daemon=True).start()
    job, folder, out = Job(given["changes"], given["seed"], given["trained"]), Path(given["folder"]), Path(given["out"])
    make_recipe(job.recipe(given["regime"]))  # a wrong one fails before torch is imported
    from diver_paper.worker import run_job

    run_job(job, given["regime"], folder, out, given["provenance"])


def _exit_with_the_sweep() -> None:
    sys.stdin.read()
    os._exit(1)

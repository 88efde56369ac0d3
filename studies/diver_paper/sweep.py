"""Many runs side by side, each in a process of its own on one thread; what is finished is never made again.

Killed at any moment, the same command goes on: a finished run is a file, an unfinished one a run folder that goes on from
its last checkpoint, and a process whose sweep is gone ends by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from diver.io.files import lock
from diver.io.jsonl import to_json
from diver.types import DiverError
from diver_paper.store import Job, find

POLL_SECONDS = 0.5
_WORKER = "from diver_paper.work import main; main()"


class Places(NamedTuple):
    """`records` has the small files that stay, `work` the run folders."""

    records: Path
    work: Path


def sweep(
    jobs: Iterable[Job], regime: Mapping[str, Any], places: Places, workers: int, provenance: Mapping[str, Any]
) -> None:
    """Make every run of `jobs` that has no record yet, `workers` at a time, in order.

    A run that fails leaves the others to be made; then DiverError names it and its log.
    """
    waiting = [job for job in {job.name: job for job in jobs}.values() if find(places.records, job, regime) is None]
    if not waiting:
        return
    places.work.mkdir(parents=True, exist_ok=True)
    held = lock(places.work)
    running: dict[str, subprocess.Popen] = {}
    failed: list[str] = []
    steps = int(regime["train"]["steps"])
    names = [job.name for job in waiting]
    trained = [job.name for job in waiting if job.trained]
    done: list[str] = []
    bar = tqdm(total=steps * len(trained), desc="runs", unit="step", dynamic_ncols=True, file=sys.stderr)
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                job = waiting.pop(0)
                running[job.name] = _start(job, regime, places, provenance)
            time.sleep(POLL_SECONDS)
            for name, process in [*running.items()]:
                if process.poll() is not None:
                    del running[name]
                    (failed if process.returncode else done).append(name)
            told = f"{len(done)} of {len(names)} done" + (f", {len(failed)} failed" if failed else "")
            bar.set_postfix_str(f"{told}; now {', '.join(running)}", refresh=False)
            bar.update(sum(steps if n in done else _steps_done(places.work / n) for n in trained) - bar.n)
    finally:
        bar.close()
        for process in running.values():
            process.kill()
            process.wait()
        held.close()
    if failed:
        logs = ", ".join(str(places.work / f"{name}.log") for name in failed)
        raise DiverError(f"{len(failed)} of {len(names)} runs failed ({logs}); the same command makes them again")


def _start(job: Job, regime: Mapping[str, Any], places: Places, provenance: Mapping[str, Any]) -> subprocess.Popen:
    told = {
        **job._asdict(),
        "regime": regime,
        "folder": places.work / job.name,
        "out": places.records,
        "provenance": provenance,
    }
    with open(places.work / f"{job.name}.log", "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", _WORKER],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    assert process.stdin is not None
    process.stdin.write(to_json(told).encode() + b"\n")
    process.stdin.flush()  # and left open: its end tells the run that the sweep is gone
    return process


def _steps_done(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0

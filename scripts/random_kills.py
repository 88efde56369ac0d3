"""Kills training and evaluation at random moments, gives the same command again until it ends,
and compares the results.

    python scripts/random_kills.py [--kills 200] [--seed 0]

`diver train` of the bundled policy, with an evaluation before, during and after it, and `diver eval`, in turn. Each
command is a fork of one process that has imported torch, and ends by SIGKILL: by the clock, or within a call that
changes a file, a write cut in half. After half of the kills the power is lost, too: of the folder is left what was
synced (`simulated_disk.py`), and of a file's unsynced bytes nothing, a part, or zeros. What is in the folder at the end
must be what an undisturbed run has, to the last byte but for measured times, or the command refuses in one line. Exit
code 1 where neither is so. Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pickle
import random
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from simulated_disk import Disk, write

RECIPE = """
[run]
folder = "out"
[model]
threads = 1
[sample]
group_size = 4
max_tokens = 28
max_prompt_tokens = 24
[train]
steps = 4
batch_size = 4
mini_batch_size = 2
learning_rate = 1e-4
save_steps = 1
[method]
name = "verified-replay"
[data.countdown]
problems = 8
[evaluate]
problems = 8
num_samples = 16
num_samples_in_training = 16
every = 2
"""
COMMANDS = {
    "train": ("train", "tiny.toml"),
    "eval": ("eval", "--model", "countdown", "--benchmarks", "countdown",
             "--limit", "4", "--samples", "128", "--out", "out"),
}  # fmt: skip
# They have times, or drawings, or checksums of the bytes of trainer.pt; they must be there.
NOT_COMPARED = {".lock", "report.html", "config.json", "provenance.jsonl", "checksums.json"}
METRICS, REPLACED = "metrics.jsonl", "metrics.replaced.jsonl"
CHANGES = ("write", "fsync", "replace", "ftruncate", "unlink", "rmdir", "mkdir")  # functions of os


class Kill(NamedTuple):
    """After so many seconds, or in a call of `CHANGES`, counted from 1; neither: not at all."""

    seconds: float | None = None
    call: int = 0


class Ended(NamedTuple):
    """A command: its exit code, None where it was killed, and the last line that it wrote."""

    code: int | None
    line: str
    calls: int


class Undisturbed(NamedTuple):
    results: dict[str, Any]
    seconds: float
    calls: int


def preload() -> None:
    """Import what the commands import; nothing that computes, so that no thread is running when this process forks."""
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    os.environ |= {"HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg"}
    import matplotlib.pyplot  # noqa: F401
    import pandas  # noqa: F401
    import transformers.models.auto.modeling_auto
    import transformers.models.llama.modeling_llama  # noqa: F401

    import diver.cli
    import diver.evaluate.of_run
    import diver.pages.run_page
    import diver.train.trainer  # noqa: F401


def run(words: Sequence[str], home: Path, kill: Kill, disk: Disk | None = None) -> Ended:
    """`diver WORDS` in the folder `home`, in a fork of this process; `disk` learns what it synced."""
    journal = home / "journal"
    process = os.fork()
    if not process:
        _command(words, home, kill, journal)
    descriptor = os.pidfd_open(process)
    if kill.seconds is not None and not select.select([descriptor], [], [], kill.seconds)[0]:
        os.kill(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    os.close(descriptor)
    calls = 0
    with journal.open("rb") as file:
        try:
            while (entry := pickle.load(file)) or True:
                calls += 1
                if entry and disk:
                    disk.record(entry)
        except (EOFError, pickle.UnpicklingError):  # its end, or where the kill cut it
            pass
    lines = (home / "printed").read_text(errors="replace").replace("\r", "\n").split("\n")
    line = next((line for line in reversed(lines) if line.strip()), "")
    return Ended(None if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status), line, calls)


def _command(words: Sequence[str], home: Path, kill: Kill, journal: Path) -> None:
    """In the fork: the command, then the end of the process."""
    code = 1
    try:
        os.chdir(home)
        printed = os.open("printed", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(printed, 1)
        os.dup2(printed, 2)
        _record_changes(Disk(home / "out"), journal.open("wb", buffering=0), kill.call)
        from diver.cli import main

        sys.argv = ["diver", *words]
        main()
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(code)


def _record_changes(disk: Disk, journal: IO[bytes], last: int) -> None:
    """Every call of `CHANGES` is an entry of the journal, with what it synced;
    the process is killed in the one numbered `last`."""
    calls = 0

    def replaced(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == last:
                if name == "write":
                    call(args[0], args[1][: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            result = call(*args, **options)
            synced = disk.synced(args[0]) if name == "fsync" else None
            journal.write(pickle.dumps(synced))
            return result

        return counted

    for name in CHANGES:
        setattr(os, name, replaced(name, getattr(os, name)))


def undisturbed(words: Sequence[str], home: Path) -> Undisturbed:
    start = time.monotonic()
    prepare(home)
    ended = run(words, home, Kill())
    assert ended.code == 0, ended
    return Undisturbed(results(home / "out"), time.monotonic() - start, ended.calls)


def prepare(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    (home / "tiny.toml").write_text(RECIPE)


def results(folder: Path) -> dict[str, Any]:
    """The files of a run or an evaluation without measured times; rows of an evaluation in whatever order they came."""
    import torch

    files: dict[str, Any] = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = str(path.relative_to(folder))
        if path.name in NOT_COMPARED or path.suffix in (".png", ".svg"):
            files[name] = None
        elif path.name == "trainer.pt":  # the same state is pickled to other bytes after it was loaded
            files[name] = _values(torch.load(path, weights_only=True))
        elif name in (METRICS, REPLACED):
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            files[name] = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]
        elif path.parent.name in ("generations", "grades") or name.endswith(("generations.jsonl", "grades.jsonl")):
            files[name] = sorted(path.read_bytes().splitlines())
        else:
            files[name] = path.read_bytes()
    return files


def _values(state: Any) -> Any:
    """A state of an optimizer that can be compared."""
    if isinstance(state, dict):
        return {key: _values(value) for key, value in state.items()}
    return state.numpy().tobytes() if hasattr(state, "numpy") else state


def disturbed(
    words: Sequence[str], home: Path, whole: Undisturbed, kills: int, chance: random.Random
) -> tuple[str, str, Counter]:
    """Kill the command until it ends, at most `kills` times: equal, refused or different; why;
    and how many kills of each kind."""
    prepare(home)
    out, count = home / "out", Counter[str]()
    while True:
        by_clock, power = chance.random() < 0.5, chance.random() < 0.5
        kill = Kill(chance.uniform(0, whole.seconds)) if by_clock else Kill(call=chance.randint(1, whole.calls))
        with contextlib.closing(Disk(out)) as disk:
            ended = run(words, home, kill if count.total() < kills else Kill(), disk)
            if ended.code is None and power and out.exists():
                write(chance.choice(disk.left(torn=lambda synced, now: _torn(synced, now, chance))), out)
        if ended.code is None:
            count[f"{'by the clock' if by_clock else 'in a call'}{', power lost' * power}"] += 1
        elif ended.code == 0:
            found = results(out)
            # Rows of steps that were done again, since a kill came between a step's row and its checkpoint.
            # They are equal, too.
            repeated = found.pop(REPLACED, [])
            if any(row not in whole.results[METRICS] for row in repeated):
                return "different", REPLACED, count
            names = {**whole.results, **found}
            differing = [name for name in names if whole.results.get(name, 0) != found.get(name, 0)]
            return ("different" if differing else "equal"), ", ".join(differing), count
        else:
            refused = ended.code == 2 and ended.line.startswith("diver: ")
            return ("refused" if refused else "different"), f"exit code {ended.code}: {ended.line}", count


def _torn(synced: bytes, now: bytes, chance: random.Random) -> bytes:
    """What the disk has of a file that was written on after its last sync."""
    if synced == now or not now.startswith(synced):
        return synced
    end = chance.randint(len(synced), len(now))
    return chance.choice((synced, now[:end], now[:end] + bytes(len(now) - end)))


def random_kills(kills: int, seed: int, work: Path, log: Callable[[str], Any] = print) -> Counter[str]:
    """How many trials were equal, refused or different, over so many kills in all."""
    preload()
    chance = random.Random(seed)
    whole = {name: undisturbed(words, work / f"{name}-whole") for name, words in COMMANDS.items()}
    outcomes, kinds = Counter[str](), Counter[str]()
    while kinds.total() < kills:
        name = ("train", "eval")[outcomes.total() % 2]
        home = work / f"{name}-{outcomes.total()}"
        outcome, why, count = disturbed(COMMANDS[name], home, whole[name], kills - kinds.total(), chance)
        outcomes[outcome] += 1
        kinds += Counter({f"{name}, {kind}": n for kind, n in count.items()})
        log(f"{name} {outcomes.total() - 1}: {count.total()} kills, {outcome}{': ' * bool(why)}{why}")
        if outcome != "different":
            shutil.rmtree(home)
    log(f"{kinds.total()} kills: " + "; ".join(f"{n} of {kind}" for kind, n in sorted(kinds.items())))
    log(f"{outcomes.total()} trials: " + ", ".join(f"{outcomes[o]} {o}" for o in ("equal", "refused", "different")))
    return outcomes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, help="a folder to work in; trials that end differently are kept there")
    args = parser.parse_args()
    work = args.work or Path(tempfile.mkdtemp(prefix="kills-"))
    outcomes = random_kills(args.kills, args.seed, work)
    sys.exit(1 if outcomes["different"] or not outcomes["equal"] else 0)  # nor may every one be refused


if __name__ == "__main__":
    main()

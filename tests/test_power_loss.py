"""A loss of power at any moment of a training: what was not synced is gone,
and the same command ends with the same results.

scripts/random_kills.py does the same at random moments, and to evaluations.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from simulated_disk import Contents, Disk, write
from test_cli import RECIPE, diver, finish, metrics

ARGS = ("--train.steps", 3, "--train.save_steps", 1, "--evaluate.every", 2)


def recorded(disk: Disk, patch: pytest.MonkeyPatch) -> list[Contents]:
    """A list that gets every disk that a loss of power could leave after a sync or a renaming."""
    sync, replace, left = os.fsync, os.replace, []

    def look():
        if disk.folder.exists():
            left.extend(found for found in disk.left() if found not in left)

    def recorded_sync(descriptor):
        sync(descriptor)
        disk.synced(descriptor)
        look()

    def recorded_replace(*args):
        replace(*args)
        look()

    patch.setattr(os, "fsync", recorded_sync)
    patch.setattr(os, "replace", recorded_replace)
    return left


def results(folder: Path) -> tuple:
    evaluations = {p.name: json.loads(p.read_text()) for p in (folder / "eval").glob("step_????.json")}
    rollouts = {p.name: p.read_text() for p in (folder / "rollouts").iterdir()}
    return metrics(folder), evaluations, rollouts


def checkpoints(disk: Contents) -> list[str]:
    return [name for name in disk if name.startswith("checkpoints/step_") and name.count("/") == 1]


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    """Every disk that a loss of power could leave, the results of the run without one,
    and the least that it has at its end."""
    home = tmp_path_factory.mktemp("power")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("OMP_NUM_THREADS", "1")
        (home / "tiny.toml").write_text(RECIPE)
        disk = Disk(home / "runs" / "tiny")
        left = recorded(disk, patch)
        finish(*ARGS)
        last = disk.left()[1]
        disk.close()
    return left, results(home / "runs" / "tiny"), last


def test_a_checkpoint_on_the_disk_is_whole_and_has_its_rows_behind_it(disks):
    left, *_ = disks
    assert len(left) > 20 and {len(checkpoints(disk)) for disk in left} >= {0, 1, 2}
    for disk in left:
        for name in checkpoints(disk):
            files = {file.removeprefix(name + "/"): content for file, content in disk.items() if file.startswith(name)}
            assert {"model.safetensors", "trainer.pt", "config.json", "checksums.json"} <= files.keys(), (
                name,
                files.keys(),
            )
            assert all(files[file] for file in ("model.safetensors", "trainer.pt", "checksums.json")), name
            step = int(name[-4:])
            rows = [json.loads(line)["step"] for line in disk["metrics.jsonl"].decode().splitlines()]
            assert [s for s in rows if s <= step] == list(range(step + 1)), (name, rows)
            assert all(disk[f"rollouts/step_{s:04d}.jsonl"] for s in range(1, step + 1)), name
            assert disk["eval/step_0000.json"]


def test_what_was_saved_is_on_the_disk(disks):
    """With the names of the folders that were synced and no others."""
    *_, last = disks
    assert {
        "checkpoints/step_0002",
        "checkpoints/step_0003",
        "metrics.jsonl",
        "rollouts/step_0003.jsonl",
    } <= last.keys()
    assert {"config.json", "eval/step_0000.json", "eval/step_0003.json"} <= last.keys()


def test_an_evaluation_on_the_disk_has_its_responses_and_grades_behind_it(disks):
    left, *_ = disks
    found = [(disk, name) for disk in left for name in disk if name.startswith("eval/") and name.endswith(".json")]
    assert len(found) > 20
    for disk, name in found:
        result = json.loads(disk[name])
        logs = [disk[name.replace(".json", f".{kind}.jsonl")].count(b"\n") for kind in ("generations", "grades")]
        assert logs == [6 * result["samples"]] * 2, (name, logs)


@pytest.mark.slow
def test_the_same_command_ends_with_the_same_results_or_says_why_not(disks, tmp_path, monkeypatch):
    """Every sixth disk, and each first one with another number of checkpoints."""
    left, whole, _ = disks
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "tiny.toml").write_text(RECIPE)
    first = {tuple(checkpoints(disk)): i for i, disk in reversed([*enumerate(left)])}
    ended = 0
    for i in sorted({*range(0, len(left), 6), *first.values()}):
        write(left[i], Path("runs/tiny"))
        code, _, err = diver("train", "tiny.toml", *ARGS)
        if code:
            assert code == 2 and err.strip().splitlines()[-1].startswith("diver: "), (i, err)
            assert not checkpoints(left[i]), (i, err)  # nothing that was trained is refused
        else:
            assert results(Path("runs/tiny")) == whole, i
            ended += 1
    assert ended > 5


@pytest.mark.first
@pytest.mark.slow
def test_random_kills_of_training_and_evaluation(tmp_path):
    """In a process of its own, which forks: this one has threads."""
    script = Path(__file__).parents[1] / "scripts" / "random_kills.py"
    words = [sys.executable, script, "--kills", "6", "--work", tmp_path]
    printed = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    assert printed.returncode == 0, printed.stdout + printed.stderr
    kills, trials = printed.stdout.splitlines()[-2:]
    assert kills.startswith("6 kills: ") and re.search(r" [1-9]\d* equal, \d+ refused, 0 different$", trials), (
        printed.stdout
    )

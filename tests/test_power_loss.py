"""A loss of power at any moment of a training: what was not synced is gone, and the same command ends with the same results.

What the disk has is recorded at every fsync: the bytes of a file, the names in a folder. After each sync and each rename of
a run two disks are possible at the extremes: one with the names of now and only the bytes that were synced (an unsynced file
is empty), and one with only the names of folders that were synced, too. POSIX allows both, and what is between them.
"""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from test_cli import RECIPE, diver, finish, metrics

ARGS = ("--train.steps", 3, "--train.save_steps", 1, "--evaluate.every", 2)


class Disk:
    """What a loss of power would leave of `folder`: disks seen so far, {relative path: bytes, or None for a folder}."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.bytes: dict[int, bytes] = {}  # inode -> what of a file is on the disk
        self.names: dict[int, dict[str, int]] = {}  # inode of a folder -> its names on the disk and their inodes
        self.held: list[int] = []  # descriptors that stay open, so that no inode is used again
        self.left: list[dict[str, bytes | None]] = []
        sync, replace = os.fsync, os.replace

        def recorded_sync(fd):
            sync(fd)
            self.synced(fd)
            self.look()

        def recorded_replace(*args):
            replace(*args)
            self.look()

        patch.setattr(os, "fsync", recorded_sync)
        patch.setattr(os, "replace", recorded_replace)

    def synced(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        self.held.append(os.dup(fd))
        inode = os.fstat(fd)
        if stat.S_ISDIR(inode.st_mode):
            self.names[inode.st_ino] = {p.name: p.lstat().st_ino for p in path.iterdir()}
        else:
            self.bytes[inode.st_ino] = path.read_bytes()

    def look(self) -> None:
        if not self.folder.exists():
            return
        now = {p: p.lstat() for p in sorted(self.folder.rglob("*"))}
        kind = {info.st_ino: stat.S_ISDIR(info.st_mode) for info in now.values()}
        ahead = {
            str(p.relative_to(self.folder)): None if kind[info.st_ino] else self.bytes.get(info.st_ino, b"")
            for p, info in now.items()
        }
        behind: dict[str, bytes | None] = {}

        def descend(inode: int, prefix: str) -> None:
            for name, child in self.names.get(inode, {}).items():
                if child in self.bytes or child in self.names or kind.get(child):
                    folder = child in self.names or kind.get(child, False)
                    behind[prefix + name] = None if folder else self.bytes.get(child, b"")
                    descend(child, f"{prefix}{name}/")

        descend(self.folder.stat().st_ino, "")
        for disk in (ahead, behind):
            if disk not in self.left:
                self.left.append(disk)

    def close(self) -> None:
        for fd in self.held:
            os.close(fd)


def write(disk: dict[str, bytes | None], folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in disk.items():
        path = folder / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def results(folder: Path) -> tuple:
    evaluations = {p.name: json.loads(p.read_text()) for p in (folder / "eval").glob("step_????.json")}
    rollouts = {p.name: p.read_text() for p in (folder / "rollouts").iterdir()}
    return metrics(folder), evaluations, rollouts


def checkpoints(disk: dict[str, bytes | None]) -> list[str]:
    return [name for name in disk if name.startswith("checkpoints/step_") and name.count("/") == 1]


@pytest.fixture(scope="module")
def disks(tmp_path_factory):
    """Every disk that a loss of power could leave, and the results of the run without one."""
    home = tmp_path_factory.mktemp("power")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        patch.setenv("OMP_NUM_THREADS", "1")
        (home / "tiny.toml").write_text(RECIPE)
        disk = Disk(home / "runs" / "tiny", patch)
        finish(*ARGS)
        disk.close()
    return disk.left, results(home / "runs" / "tiny")


def test_a_checkpoint_on_the_disk_is_whole_and_has_its_rows_behind_it(disks):
    left, _ = disks
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


@pytest.mark.slow
def test_the_same_command_ends_with_the_same_results_or_says_why_not(disks, tmp_path, monkeypatch):
    """Every third disk, and each first one with another number of checkpoints."""
    left, whole = disks
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "tiny.toml").write_text(RECIPE)
    first = {tuple(checkpoints(disk)): i for i, disk in reversed([*enumerate(left)])}
    ended = 0
    for i in sorted({*range(0, len(left), 3), *first.values()}):
        write(left[i], Path("runs/tiny"))
        code, _, err = diver("train", "tiny.toml", *ARGS)
        if code:
            assert code == 2 and err.strip().splitlines()[-1].startswith("diver: "), (i, err)
            assert not checkpoints(left[i]), (i, err)  # nothing that was trained is refused
        else:
            assert results(Path("runs/tiny")) == whole, i
            ended += 1
    assert ended > 10

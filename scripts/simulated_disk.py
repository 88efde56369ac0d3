"""What a loss of power would leave of a folder: what was not synced is gone, and the disk may have synced it or not.

The disk is recorded at every fsync: the bytes of a file, the names in a folder. At any moment two disks are possible at
the extremes: one with the names of now and only the bytes that were synced (an unsynced file is empty), and one with
only the names of folders that were synced, too. POSIX allows both, and what is between them.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

Contents = dict[str, bytes | None]
"""Relative path -> the bytes of a file, or None for a folder."""
Synced = tuple[int, bytes | dict[str, int]]
"""An inode, and the bytes of a file or the inodes of a folder's names."""


class Disk:
    """The disk under `folder`; what is there at first is on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._synced: dict[int, bytes | dict[str, int]] = {}
        self._held: list[int] = []  # descriptors that stay open, so that no inode is used again
        for path in (folder, *folder.rglob("*")) if folder.exists() else ():
            self._held.append(os.open(path, os.O_RDONLY))
            self.record(read(path))

    def synced(self, descriptor: int) -> Synced:
        self._held.append(os.dup(descriptor))
        synced = read(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        self.record(synced)
        return synced

    def record(self, synced: Synced) -> None:
        self._synced[synced[0]] = synced[1]

    def close(self) -> None:
        for descriptor in self._held:
            os.close(descriptor)

    def left(self, torn: Callable[[bytes, bytes], bytes] = lambda synced, now: synced) -> tuple[Contents, Contents]:
        """The two disks that a loss of power could leave now; `torn` is what is left of a file,
        of its synced bytes and all."""
        now = {p: p.lstat() for p in sorted(self.folder.rglob("*"))}
        folders = {info.st_ino for info in now.values() if stat.S_ISDIR(info.st_mode)}
        folders |= {inode for inode, content in self._synced.items() if isinstance(content, dict)}
        written = {info.st_ino: p for p, info in now.items() if info.st_ino not in folders}

        def content(inode: int) -> bytes | None:
            if inode in folders:
                return None
            synced = self._synced.get(inode, b"")
            assert isinstance(synced, bytes)
            return torn(synced, written[inode].read_bytes() if inode in written else synced)

        behind: Contents = {}

        def descend(inode: int, prefix: str) -> None:
            names = self._synced.get(inode, {})
            for name, child in names.items() if isinstance(names, dict) else ():
                behind[prefix + name] = content(child)
                descend(child, f"{prefix}{name}/")

        descend(self.folder.stat().st_ino, "")
        return {str(p.relative_to(self.folder)): content(info.st_ino) for p, info in now.items()}, behind


def read(path: Path) -> Synced:
    if path.is_dir():
        return path.stat().st_ino, {p.name: p.lstat().st_ino for p in path.iterdir()}
    return path.stat().st_ino, path.read_bytes()


def write(disk: Contents, folder: Path) -> None:
    """Make `folder` what the disk has."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in disk.items():
        path = folder / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

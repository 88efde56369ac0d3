"""A folder for one piece of work: it says whose it is, and one process at a time works in it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from diver.core.files import check_folder, lock, make_folder, write_text
from diver.core.jsonl import read_json, to_json
from diver.core.types import DiverError

KINDS = {"engine": "a training run", "model": "an evaluation", "rollouts": "the grades of rollouts"}
"""A key of the identity of each kind of work, and what the work is."""


class WorkFolder:
    """A folder whose config.json has the `identity` of the work in it; other work is refused.

    Nothing is written before `begin`, which locks it until `close`.
    """

    content = "a run of another recipe"
    option = "run.folder"
    """The setting that names the folder."""

    def __init__(
        self,
        path: Path,
        config: Mapping[str, Any],
        identity: Mapping[str, Any],
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        """`defaults` are the values of keys of the identity that did not exist when an older folder was made."""
        self.path, self._file = path, path / "config.json"
        self.config: dict[str, Any] = json.loads(to_json({**config, "identity": identity}))
        self._defaults = json.loads(to_json(defaults or {}))
        self._lock: IO[str] | None = None
        if self._file.exists():
            self._take_over()
            self._lock = lock(path)  # before anything else in it is read
        else:
            check_folder(path)
            if path.exists() and any(not p.name.startswith(".") for p in path.iterdir()):
                raise DiverError(f"{path}: has files but no config.json; choose another {self.option}")

    def begin(self) -> None:
        """Make the folder, lock it against other processes, and write config.json if it is missing."""
        make_folder(self.path)
        self._lock = self._lock or lock(self.path)
        for part in self.path.rglob(".*.part"):  # which a kill left of a file; a page is written by whoever makes one
            if part.is_file() and not part.name.startswith(".report.html."):
                part.unlink()
        if self._file.exists():
            self._take_over()
        else:
            write_text(self._file, to_json(self.config, indent=2) + "\n")

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_over(self) -> None:
        """Read the existing config.json, if it has the same identity."""
        stored, mine = read_json(self._file), self.config["identity"]
        known = stored.get("identity")
        if not isinstance(known, dict):
            raise DiverError(f"{self._file}: is not the config.json of a run; choose another {self.option}")
        theirs = {key: self._defaults.get(key) for key in mine} | known
        changed = sorted(key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key))
        if changed and mine.keys().isdisjoint(known):
            kind = next((kind for key, kind in KINDS.items() if key in known), "other work")
            raise DiverError(f"{self.path}: has {kind}; choose another {self.option}")
        if changed:
            # A name decides which other keys there are, so it comes first, and keys that only one of the two has last.
            changed.sort(key=lambda key: (not key.endswith(("engine", ".name")), key not in mine or key not in known))
            changes = "; ".join(f"{key} was {theirs.get(key)!r}, now {mine.get(key)!r}" for key in changed[:4])
            raise DiverError(f"{self.path}: has {self.content} ({changes}); choose another {self.option}{self.anew}")
        self.config = stored

    @property
    def anew(self) -> str:
        """The other way out of a folder that cannot be continued, behind "choose another folder"."""
        return (
            ", or begin anew with --restart" if self.config["identity"].get("engine") == "built-in" else " or delete it"
        )

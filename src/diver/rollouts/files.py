"""Find the files of rollouts in a folder, and their steps."""

import filecmp
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from diver.core.files import check_folder
from diver.core.run_folder import is_aside
from diver.core.settings import no_file
from diver.core.types import DiverError
from diver.rollouts.formats import READERS

# Folders of rollouts within the output folder of a trainer or an evaluation.
FOLDERS = ("rollouts", "generations", "completions", "dumped_evals", "rollout_data")
PACKED = (".gz", ".zst", ".xz", ".bz2")
_NUMBER = re.compile(r"(?:.*(?:step|completions|iteration|rollout|data|eval)[_-]?)?(\d+)(?:_evals)?")
_NUMBER_BY_WORD = re.compile(r".*(?:step|iteration|rollout)[_-]?(\d+)(?:_evals)?")
_EVALUATION = re.compile(r"(?:.*_)?(?:val|eval|test)(?:_.*)?")
# Files beside rollouts: metrics, settings, tokenizers, summaries.
_OTHER = re.compile(
    r"\..*|(?:metrics|config|.*_config|aggregated_results|provenance|params|args|summar(?:y|ies)|.*_rollout_summaries|"
    r"timing_spans|checkpoints|tokenizer.*|trainer_state|special_tokens_map|vocab|.*\.index|rank_\d+)\.[a-z]+|"
    r"(?:.*results|results_\d{4}-.*)\.json"
)


class RolloutFile(NamedTuple):
    """A file of rollouts.

    `step` is the number in its name or in the name of a folder above it, `step_by_word` the number after step,
    iteration or rollout. `size` is in bytes, `changed` in nanoseconds.
    """

    path: Path
    step: int | None
    step_by_word: int | None
    size: int
    changed: int


def rollout_files(path: Path, steps: str = "") -> tuple[list[RolloutFile], list[str]]:
    """A file, or the files of a folder by step, and notes on the files that were left out.

    Args:
        steps: only the files with these numbers: `100`, `1,50-60`, `last`.

    Raises:
        DiverError: no file is found.
    """
    if path.is_file():
        if steps:
            raise DiverError(f"--steps {steps}: selects files of a folder, and {path} is one file")
        if path.suffix not in READERS:
            raise DiverError(f"{path}: a file must be {' or '.join(READERS)}, not {path.suffix or 'without suffix'}")
        return [*_found([path], path.parent)], []
    if not path.is_dir():
        raise DiverError(no_file(path))
    folder = next((path / name for name in FOLDERS if (path / name).is_dir()), path)
    paths, notes = _of_training(folder, sorted(_candidates(folder)))
    packed = sorted(p for p in folder.rglob("*") if p.suffix in PACKED and p.with_suffix("").suffix in READERS)
    if packed:
        notes.append(
            f"{folder}: {len(packed)} compressed files left out, such as {packed[0]}; unpack them to read them"
        )
    runs = sorted({p for file in paths for p in file.parents if p.name in FOLDERS and folder in p.parents})
    if len(runs) > 1:
        note = f"rollouts of {len(runs)} runs are read as those of one, such as {runs[0]} and {runs[-1]}"
        notes.append(f"{folder}: {note}; name each run to tell them apart")
    files = [*_found(paths, folder)]
    if not files:
        raise DiverError(f"{folder}: no {' or '.join(READERS)} file of rollouts in this folder")
    if steps:
        selected = _selected(steps, max((f.step for f in files if f.step is not None), default=0))
        files = [f for f in files if f.step is not None and selected(f.step)]
        if not files:
            raise DiverError(f"{folder}: no file of steps {steps} in this folder")
    files.sort(key=lambda f: (-1 if f.step is None else f.step, str(f.path)))
    return files, [*notes, *_copies(files)]


def _copies(files: Iterable[RolloutFile]) -> Iterator[str]:
    """A note on the first file that is a copy of another file of its step: its responses count twice."""
    originals: dict[tuple[int | None, int], Path] = {}
    for file in files:
        original = originals.setdefault((file.step, file.size), file.path)
        if original != file.path and file.size and filecmp.cmp(original, file.path, shallow=False):
            yield f"{file.path}: a copy of {original}, so that its responses count twice"
            return


def check_out(out: Path, names: Iterable[str], read: Iterable[Path], mine: bool) -> None:
    """DiverError if the results `names` of the rollouts `read` cannot be written into the folder `out`.

    Existing files of these names are replaced only if they are `mine`, which are earlier results of the command.
    """
    check_folder(out)
    if (out / "config.json").exists():  # the folder of a run, an evaluation or grades
        raise DiverError(f"--out {out}: has other work, that of its config.json; choose another --out")
    check_written((out / name for name in names), read, mine)


def check_written(written: Iterable[Path], paths: Iterable[Path], mine: bool) -> None:
    """Raise DiverError if a file of `written` is also a file of rollouts in `paths`, at any step, or if it exists and
    is not `mine`."""
    inputs = {file.path.resolve() for path in paths for file in rollout_files(path)[0]}
    for path in written:
        if path.resolve() in inputs or (path.exists() and not mine):
            reason = "is read" if path.resolve() in inputs else "this command did not write"
            raise DiverError(f"--out: would replace {path}, which {reason}; choose another --out")


def _found(paths: Iterable[Path], folder: Path) -> Iterator[RolloutFile]:
    for path in paths:
        with suppress(FileNotFoundError):  # deleted since the folder was listed
            stat = path.stat()
            names = [path.stem, *(p.name for p in path.parents if folder in p.parents)]
            step, by_word = (
                next((int(match[1]) for name in names if (match := number.fullmatch(name))), None)
                for number in (_NUMBER, _NUMBER_BY_WORD)
            )
            yield RolloutFile(path, step, by_word, stat.st_size, stat.st_mtime_ns)


def _candidates(folder: Path) -> Iterator[Path]:
    """Each file once, by a path without links if it has one. A link may be broken or lead in a circle."""
    waiting, links, seen = [folder], deque[Path](), set[str]()
    while waiting or links:
        path = waiting.pop() if waiting else links.popleft()
        is_folder = path.is_dir()
        if is_folder:
            left_out = path != folder and path.name.startswith((".", "checkpoint"))
        else:
            left_out = path.suffix not in READERS or _OTHER.fullmatch(path.name) is not None or not path.is_file()
        if left_out or (real := os.path.realpath(path)) in seen:
            continue
        seen.add(real)
        if not is_folder:
            yield path
        else:
            for inside in sorted(path.iterdir()):
                (links if inside.is_symlink() else waiting).append(inside)


def _of_training(folder: Path, files: list[Path]) -> tuple[list[Path], list[str]]:
    """The rollouts of training if the folder has evaluations, too, and prime-rl's `all` rather than its `effective`.

    Runs that --restart has set aside are left out.
    """

    def of_evaluation(path: Path) -> bool:
        return any(_EVALUATION.fullmatch(Path(part).stem) for part in path.relative_to(folder).parts)

    notes = []
    if aside := [p for p in {p for file in files for p in file.parents if folder in p.parents} if is_aside(p)]:
        notes = [f"{folder}: {len(aside)} runs that --restart set aside left out, such as {min(aside)}"]
        files = [p for p in files if not any(a in p.parents for a in aside)]
    evaluations = [p for p in files if of_evaluation(p)]
    if 0 < len(evaluations) < len(files):
        notes += [f"{folder}: {len(evaluations)} files of evaluations left out, such as {evaluations[0]}"]
        files = [p for p in files if not of_evaluation(p)]
    return [p for p in files if not (p.parent.name == "effective" and (p.parents[1] / "all" / p.name).exists())], notes


def _selected(steps: str, last: int) -> Callable[[int], bool]:
    ranges = []
    for span in steps.replace("last", str(last)).split(","):
        ends = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", span)
        if ends is None:
            raise DiverError(f"--steps {steps}: must be numbers such as 100, or 1,50-60,last")
        ranges.append(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return lambda step: any(step in r for r in ranges)

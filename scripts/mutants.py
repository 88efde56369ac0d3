"""Break the core on purpose, one line at a time, and see that a test notices.

    python scripts/mutants.py                  # all of mutants.toml; exit code 1 if one is not noticed
    python scripts/mutants.py clip-sides lock  # some, by name
    python scripts/mutants.py --jobs 2 --out table.md

Works on a copy of the tracked files in a temporary folder. The tests of the table run once unbroken first:
one that fails anyway is left out, so that it is not taken for one that notices. A mutant whose `python` is not
installed is not run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_suffix(".toml")
SECONDS = 600  # for the tests of one mutant; one that never ends has not been noticed by a test
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::.*?)(?: - .*)?$", re.MULTILINE)


class Mutant(NamedTuple):
    """A behaviour that is broken: `old`, which stands once in `file`, becomes `new`, and one of `tests` should fail."""

    name: str
    what: str
    file: str
    old: str
    new: str
    tests: list[str]
    python: str = ""
    """The interpreter of another environment, relative to the root, in which the tests run."""


class Result(NamedTuple):
    """What became of a mutant: the test that failed, or None and the last line of pytest."""

    mutant: Mutant
    test: str | None
    told: str


def main() -> None:
    options = arguments()
    mutants = [m for m in chosen(options.names) if not m.python or (ROOT / m.python).exists()]
    if options.list:
        for m in mutants:
            print(f"{m.name:24} {m.file}: {m.what}")
        return
    if wrong := [line for m in mutants if (line := fault(m))]:
        sys.exit("\n".join(wrong))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [copied(Path(folder) / str(i)) for i in range(max(1, min(options.jobs, len(mutants))))]
        failing = fail_anyway(copies[0], mutants)
        results = run(mutants, copies, failing)
    table = markdown(results)
    print(f"\n{table}")
    if options.out:
        options.out.write_text(table, encoding="utf-8")
    sys.exit(any(r.test is None for r in results))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="mutants to run; none: all")
    parser.add_argument("--list", action="store_true", help="tell the mutants and run nothing")
    parser.add_argument("--jobs", type=int, default=1, help="mutants side by side")
    parser.add_argument("--out", type=Path, help="write the table to this file, as Markdown")
    return parser.parse_args()


def chosen(names: Sequence[str]) -> list[Mutant]:
    mutants = [Mutant(**m) for m in tomllib.loads(TABLE.read_text(encoding="utf-8"))["mutant"]]
    known = [m.name for m in mutants]
    if twice := {name for name in known if known.count(name) > 1}:
        sys.exit(f"{TABLE}: twice: {', '.join(sorted(twice))}")
    if unknown := set(names) - set(known):
        sys.exit(f"no mutant {', '.join(sorted(unknown))}; choose from {', '.join(known)}")
    return [m for m in mutants if not names or m.name in names]


def fault(m: Mutant) -> str | None:
    """What is wrong with an entry, so that it cannot break anything or nothing could notice."""
    path = ROOT / m.file
    if not path.is_file():
        return f"{m.name}: {m.file}: no such file"
    text = path.read_text(encoding="utf-8")
    if (count := text.count(m.old)) != 1:
        return f"{m.name}: {m.file}: `old` is there {count} times, it must be there once"
    try:
        compile(text.replace(m.old, m.new), m.file, "exec")
    except SyntaxError as error:
        return f"{m.name}: {m.file}: `new` does not compile: {error}"
    if missing := [test for test in m.tests if not exists(*test.split("::"))]:
        return f"{m.name}: no such test: {', '.join(missing)}"
    return None if m.tests else f"{m.name}: no tests"


def exists(file: str, function: str) -> bool:
    return (ROOT / file).is_file() and f"\ndef {function}(" in (ROOT / file).read_text(encoding="utf-8")


def copied(folder: Path) -> Path:
    """A copy of the tracked files as they now are."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def pytest(folder: Path, *words: str, python: str = "") -> tuple[int, str]:
    """Exit code and output of pytest in a copy; -1 where it did not end in time."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(str(folder / room) for room in ("src", "studies") if (folder / room).is_dir()),
        "PYTHONDONTWRITEBYTECODE": "1",  # a file that changes twice within a second must be read each time
        "OMP_NUM_THREADS": "1",
        "DIVER_DATA": os.environ.get("DIVER_DATA", str(ROOT.parent / "shared" / "data")),
    }
    options = "-p no:xdist -p no:cacheprovider -rfE --tb=no".split()
    command = [str(ROOT / python) if python else sys.executable, "-m", "pytest", *options, *words]
    try:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return -1, f"did not end in {SECONDS} s"
    return done.returncode, done.stdout + done.stderr


def fail_anyway(folder: Path, mutants: Sequence[Mutant]) -> list[str]:
    """The tests that fail in the code as it is; told, and left out from then on."""
    failing = []
    for python in dict.fromkeys(m.python for m in mutants):
        tests = list(dict.fromkeys(t for m in mutants if m.python == python for t in m.tests))
        print(f"{len(mutants)} mutants; first {len(tests)} of their tests with nothing broken", flush=True)
        code, output = pytest(folder, *tests, python=python)
        if code not in (0, 1):
            sys.exit(f"the tests do not run at all:\n{output[-2000:]}")
        failing += FAILED.findall(output)
    for test in failing:
        print(f"fails with nothing broken, so it notices nothing: {test}")
    return failing


def run(mutants: Sequence[Mutant], copies: Sequence[Path], failing: Sequence[str]) -> list[Result]:
    """The result of each mutant, in order; as many at a time as there are copies."""
    free = list(copies)

    def one(m: Mutant) -> Result:
        copy = free.pop()  # there is one for each thread
        result = tried(m, copy, failing)
        free.append(copy)
        return result

    with (
        ThreadPoolExecutor(len(copies)) as threads,
        tqdm(total=len(mutants), desc="mutants", unit="mutant", dynamic_ncols=True) as bar,
    ):
        futures = [threads.submit(one, m) for m in mutants]
        for done in as_completed(futures):
            result = done.result()
            if result.test is None:
                bar.write(f"SURVIVED {result.mutant.name}: {result.told}")
            bar.update()
    return [future.result() for future in futures]


def tried(m: Mutant, folder: Path, failing: Sequence[str]) -> Result:
    path = folder / m.file
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(m.old, m.new), encoding="utf-8")
    try:
        code, output = pytest(folder, "-x", *m.tests, *(f"--deselect={test}" for test in failing), python=m.python)
    finally:
        path.write_text(text, encoding="utf-8")
    found = FAILED.search(output) if code == 1 else None
    return Result(m, found[1] if found else None, (output.strip().splitlines() or ["no output"])[-1])


def markdown(results: Sequence[Result]) -> str:
    lines = ["| mutant | what is broken | file | the test that fails |", "|---|---|---|---|"]
    for r in results:
        found = f"`{r.test}`" if r.test else f"SURVIVED ({r.told})"
        lines.append(f"| {r.mutant.name} | {r.mutant.what} | `{r.mutant.file}` | {found} |")
    caught = sum(r.test is not None for r in results)
    return "\n".join([*lines, "", f"{caught} of {len(results)} are caught.", ""])


if __name__ == "__main__":
    main()

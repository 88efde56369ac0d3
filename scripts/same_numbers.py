"""Do two trees give the same numbers? `python scripts/same_numbers.py BEFORE AFTER`, each a commit or a checkout's
folder.

Short runs of every method, of some with settings of theirs, are made in both trees and compared value by value,
responses included; so is what eval, grade, measure, compare and browse print and write about them; so are the study's
records and pages, as committed and as `diver reproduce` makes them anew. same_numbers.toml has the runs and the
commands; both trees must know its names. Exit code 1 for any difference. What a commit gave is kept under --work; a
folder is run anew.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import fnmatch
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
RUNS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
METHODS = RUNS["method"] | {name: {"name": name} for name in RUNS["methods"]}
LOCK = threading.Lock()
RUN_LOCKS: dict[Path, threading.Lock] = {}
NUMBER = re.compile(r"(?<![\w.@])[-+±]?\d+(?:,\d{3})*(?:\.\d+)?|\*\*[^*]+\*\*")  # not pass@4; or what is bold
PAGE_DATA = re.compile(r'<script type="text/plain" id="data">(.*?)</script>')
START = (  # the tree's own command, and nobody else's package
    "import sys, pathlib, importlib, diver; tree, module, function = (sys.argv.pop(1) for _ in range(3))\n"
    "assert pathlib.Path(diver.__file__).resolve().is_relative_to(tree), diver.__file__\n"
    "getattr(importlib.import_module(module), function)()"
)
Values = dict[str, Any]


class Tree(NamedTuple):
    """A checkout, and the folder where what it makes is kept."""

    label: str
    path: Path
    kept: Path

    def diver(self, *words: str) -> str:
        """What `diver WORDS` prints; RuntimeError with the last line that it complains in."""
        entry = tomllib.loads((self.path / "pyproject.toml").read_text())["project"]["scripts"]["diver"]
        paths = os.pathsep.join(str(p) for p in (self.path / "src", self.path / "studies") if p.exists())
        command = [sys.executable, "-c", START, str(self.path), *entry.split(":"), *words]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": paths}
        # A run takes 20 s; a study that takes longer than this has not found its records and begins to train.
        done = subprocess.run(command, cwd=self.path, env=env, capture_output=True, text=True, timeout=600)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
        return done.stdout

    def find(self, pattern: str) -> list[Path]:
        """Files of the study: its pages and records."""
        return [path for top in ("docs", "studies") for path in sorted((self.path / top).rglob(pattern))]


@contextlib.contextmanager
def checkout(name: str, work: Path) -> Iterator[Tree]:
    """The tree of a folder, or of a commit as a git worktree that is removed at the end."""
    if (Path(name) / "pyproject.toml").exists():
        path = Path(name).resolve()
        kept = work / f"folder-{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
        shutil.rmtree(kept, ignore_errors=True)  # the files may have changed since
        yield Tree(name, path, kept)
        return
    git = ["git", "-C", str(ROOT)]
    found = subprocess.run([*git, "rev-parse", "--verify", f"{name}^{{commit}}"], capture_output=True, text=True)
    if not (commit := found.stdout.strip()):
        sys.exit(f"{name}: is neither a checkout nor a commit of {ROOT}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder).resolve() / "tree"
        subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(path), commit], check=True)
        try:
            yield Tree(name, path, work / commit)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(path)], check=True)


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted name, leaf) of nested tables and lists."""
    if isinstance(value, dict | list) and value:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def named(table: str, value: Any, label: str = "") -> Values:
    """The leaves of `value`, less what is left out of a `table`."""
    skipped = RUNS["left_out"].get(table, [])
    return {label + name: leaf for name, leaf in flat(value) if not any(fnmatch.fnmatch(name, p) for p in skipped)}


def recipe_of(run: str) -> str:
    """The recipe of a run as TOML."""
    other = RUNS["instead"].get(run, RUNS["short"] if run in RUNS["methods"] else {})
    pairs = flat(RUNS["base"] | other | {"method": METHODS[run]})
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in pairs)


def made(run: str, tree: Tree) -> Path:
    """The folder of the run; made unless it is there."""
    recipe = recipe_of(run)
    key = hashlib.sha256(repr((recipe, sys.version, version("torch"), version("transformers"))).encode()).hexdigest()
    folder = tree.kept / f"{run}-{key[:12]}"
    with RUN_LOCKS.setdefault(folder, threading.Lock()):
        if folder.exists():
            return folder
        path, part = tree.kept / "recipes" / f"run-{run}.toml", folder.with_name(f".{folder.name}.part")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(recipe)
        shutil.rmtree(part, ignore_errors=True)
        tree.diver("train", str(path), "--run.folder", str(part))
        shutil.rmtree(part / "checkpoints")
        part.rename(folder)
    return folder


def train(run: str, tree: Tree) -> Values:
    """Every value that the run leaves behind."""
    folder, found = made(run, tree), Values()
    for row in map(json.loads, (folder / "metrics.jsonl").open()):
        found |= named("metrics", row, f"step {row['step']}: ")
    for file in sorted((folder / "rollouts").iterdir()):
        for i, row in enumerate(map(json.loads, file.open())):
            found |= named("rows", row, f"{file.name}, row {i}: ")
    for file in sorted((folder / "eval").glob("*.json")):  # beside them are logs of responses and grades
        found |= named("evaluations", json.loads(file.read_text()), f"eval/{file.name}: ")
    return found


def printed_and_written(name: str, tree: Tree) -> Values:
    """What a command prints (its tables, where it has some), and the values of the files and of the pages' data that it
    writes."""
    words = RUNS["commands"][name]
    runs = {run: str(made(run, tree)) for run in METHODS if f"{{{run}}}" in words}
    out = tree.kept / f"command-{name.replace(' ', '-')}"
    shutil.rmtree(out, ignore_errors=True)
    text = tree.diver(*(word.format(out=out, **runs) for word in words.split()))
    text = text.replace(str(tree.path), "TREE").replace(str(out), "OUT")
    lines = [line for line in text.splitlines() if line.startswith("|")] or text.splitlines()
    found = {f"printed, line {i + 1}": line for i, line in enumerate(lines)}
    for file in sorted(out.rglob("*")) if out.exists() else ():
        if file.name in ("provenance.jsonl", "config.json"):  # when, where and of what it was made
            continue
        label = f"{file.relative_to(out)}: "
        if file.suffix == ".json":
            found |= named("written", json.loads(file.read_text()), label)
        elif file.suffix == ".jsonl":
            for i, line in enumerate(sorted(file.read_text().splitlines())):
                found |= named("written", json.loads(line), f"{label}row {i}: ")
        elif file.suffix in (".md", ".csv"):
            found |= {f"{label}line {i + 1}": line for i, line in enumerate(file.read_text().splitlines())}
        elif file.suffix == ".html" and (data := PAGE_DATA.search(file.read_text())):
            found |= named("written", json.loads(gzip.decompress(base64.b64decode(data[1]))), label)
    return found


def advantages(tree: Tree) -> Values:
    """What `diver.advantages` and the adapter for TRL give for the same rows under every method, or why they refuse
    it."""
    script = Path(__file__).with_name("adapter_numbers.py").read_text()
    paths = os.pathsep.join(str(p) for p in (tree.path / "src", tree.path / "studies") if p.exists())
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", script], cwd=tree.path, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return dict(flat(json.loads(done.stdout)))


def pages(tree: Tree) -> dict[str, Path]:
    """Name -> page, of the folder that has main-tiny.md."""
    every = tree.find("main-tiny.md")[0].parent.glob("*.md")
    return {path.stem: path for path in every if path.stem != "README"}


def page(name: str, tree: Tree) -> Values:
    """The numbers of a page as committed, and as the tree's own code makes it from its records."""
    path = pages(tree)[name]
    found, kept = numbers(path, "committed"), tree.kept / "pages" / path.stem
    if not name.endswith("-tiny"):  # not made by diver reproduce
        return named("pages", found)
    if not (kept / path.name).exists():
        shutil.copytree(path.parent, kept, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.md", "*.png"))
        tree.diver("reproduce", path.stem.removesuffix("-tiny"), "--out", str(kept))
    return named("pages", found | numbers(kept / path.name, "made anew"))


def numbers(path: Path, label: str) -> Values:
    """The numbers of a page in order, tables apart from prose, and what is bold in tables; not the words that name a
    row."""
    kinds: dict[str, list[str]] = {"table": [], "prose": []}
    for line in path.read_text().splitlines():
        table = line.startswith("|")
        found = NUMBER.findall(line.split("|", 2)[2] if table else line.replace("**", ""))
        kinds["table" if table else "prose"] += [t.strip("*") for t in found]
    return {f"{label}, {kind}, value {i + 1}": t for kind, texts in kinds.items() for i, t in enumerate(texts)}


def records(tree: Tree) -> Values:
    """Every record of a run, and what models have measured."""
    found = Values()
    for file in tree.find("*.jsonl.gz"):
        for record in map(json.loads, gzip.decompress(file.read_bytes()).splitlines()):
            found |= named("records", record, f"{file.name}, {record['name']}: ")
    for path in tree.find("metric-validity-tiny.json"):
        found |= named("", json.loads(path.read_text()), f"{path.name}: ")
    return found


def compare(before: Values | str, after: Values | str) -> tuple[int, str]:
    """(Values compared, the first difference or ""); a string is what went wrong. A value that only `after` has,
    such as that of a new metric, is no difference."""
    if isinstance(before, str) or isinstance(after, str):
        return 0, "; ".join(v for v in (before, after) if isinstance(v, str))
    for name, first in before.items():
        second = after.get(name, "absent")
        if first != second:
            return len(before), f"{name}: {first!r} before, {second!r} after"
    return len(before), "" if before else "nothing to compare"


def table(before: Tree) -> dict[str, Callable[[Tree], Values]]:
    """Row -> what gives its values in a tree. The pages are those of `before`."""
    runs = {f"train {run}": partial(train, run) for run in METHODS}
    runs |= {f"diver {name}": partial(printed_and_written, name) for name in RUNS["commands"]}
    runs |= {"advantages": advantages}
    return {**runs, "records": records, **{f"page {name}": partial(page, name) for name in sorted(pages(before))}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs=2, metavar="TREE", help="BEFORE and AFTER: a commit, or a checkout's folder")
    parser.add_argument("--jobs", type=int, default=2, help="commands side by side, one thread each")
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "same_numbers", help="where runs are kept")
    parser.add_argument("--only", default="", help="the rows of the table that contain this")
    arguments = parser.parse_args()
    work, trees = arguments.work.resolve(), arguments.trees
    with checkout(trees[0], work) as before, checkout(trees[1], work) as after:
        assert before.kept != after.kept, "BEFORE and AFTER are one commit"
        rows = {name: f for name, f in table(before).items() if arguments.only in name}
        found: dict[tuple[str, Tree], Values | str] = {}
        pool = ThreadPoolExecutor(arguments.jobs)
        todo = {pool.submit(f, tree): (row, tree) for row, f in rows.items() for tree in (before, after)}
        try:
            for done in tqdm(as_completed(todo), total=len(todo), dynamic_ncols=True):
                error = done.exception()
                found[todo[done]] = done.result() if error is None else f"{todo[done][1].label}: {error!r}"
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for what has not begun
    results = {row: compare(found[row, before], found[row, after]) for row in rows}
    for row, (compared, difference) in results.items():
        print(f"{row:{max(map(len, rows))}}  {compared:7,}  {difference or 'equal'}")
    different = sum(bool(difference) for _, difference in results.values())
    print(f"{different} of {len(rows)} differ between {before.label} and {after.label}")
    sys.exit(1 if different or not rows else 0)


if __name__ == "__main__":
    main()

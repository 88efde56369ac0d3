"""docs/extending.md: its files, in an empty folder, and its commands as they stand."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from diver import cli

PAGE = (Path(__file__).parents[1] / "docs" / "extending.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^\*\*`(.+?)`\*\*\n\n```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))
COMMANDS = [line for block in re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()]  # fmt: skip


def check_metric(folder, rows):
    assert all(0 < row["diversity/my_metric:first_step"] < 1 for row in rows[1:])


def check_verifier(folder, rows):
    rollouts = [json.loads(line) for path in sorted((folder / "rollouts").glob("*.jsonl")) for line in path.open()]
    assert len(rollouts) == 32 and {r["grade"] for r in rollouts if r"\div" in r["response"]} <= {"wrong", "no_answer"}
    assert "correct" in {r["grade"] for r in rollouts}


def check_benchmark(folder, rows):
    results = json.loads((folder / "results.json").read_text())["benchmarks"]["game-of-24"]
    assert results["problems"] > 30 and results["estimates"]["pass@4"]["mean"] > 0.5


def check_task(folder, rows):
    evaluated = json.loads(next((folder / "eval").glob("*.json")).read_text())
    ids = {row["id"] for row in evaluated["per_problem"]}
    assert len(ids) == 4 and all(re.fullmatch(r"\d+-\d+-\d+", name) for name in ids)


def check_method(folder, rows):
    assert len(rows) == 3


CHECKS = {name.removeprefix("check_"): check for name, check in globals().items() if name.startswith("check_")}


def test_the_page_has_a_file_for_each():
    assert FILES.keys() >= {"tiny.toml", "my_metric.py", "my_verifier.py", "my_benchmark.py"}
    assert len(COMMANDS) >= 4 and all(command.startswith("diver ") for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: re.search(r"runs/(\w+)", command)[1])
def test_command(command, tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = shlex.split(command)[1:]
    if command == COMMANDS[0]:
        env = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
        done = subprocess.run(
            [sys.executable, "-m", "diver", *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-2000:]
    else:  # in this process, from the same empty folder
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["diver", *words])
        monkeypatch.setattr(sys, "path", [*sys.path])  # main adds the folder where the command is given
        try:
            cli.main()
        finally:
            for name in FILES:  # the next command has files of its own
                sys.modules.pop(name.removesuffix(".py"), None)
    name = re.search(r"runs/(\w+)", command)[1]
    metrics = tmp_path / "runs" / name / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.open()] if metrics.exists() else []
    CHECKS[name](metrics.parent, rows)

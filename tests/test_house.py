"""`scripts/house.py` measures this clone, or ends with status 1 and one line."""

import ast
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import house
import pytest

ROOT = Path(__file__).parents[1]


def run(environment, *words):
    program = [sys.executable, str(ROOT / "scripts" / "house.py"), *words]
    return subprocess.run(program, env={**os.environ, **environment}, capture_output=True, text=True, timeout=600)


def test_another_package_is_not_measured(tmp_path):
    (tmp_path / "diver").mkdir()
    (tmp_path / "diver" / "__init__.py").write_text("")
    done = run({"PYTHONPATH": str(tmp_path)})
    told = f"house.py: diver is imported from {tmp_path.resolve() / 'diver'}, and this measures {house.SOURCE}: set "
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith(told) and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("train", "none.toml"), "house.py: diver train none.toml: .*none.toml"),
        (("eval", "--model", "none"), "house.py: diver eval --model none: "),
    ],
)
def test_a_run_that_fails_is_an_error(words, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", sys.argv)
    with pytest.raises(SystemExit, match=told) as end:
        house.command(*words)
    assert "\n" not in str(end.value)


def test_a_run_without_a_function_of_the_library_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["house.py"])
    monkeypatch.setattr(house, "PATHS", {"nothing": dict})
    monkeypatch.setattr(house, "size", dict)
    with pytest.raises(SystemExit, match="house.py: nothing passes no function of"):
        house.main()


@pytest.fixture(scope="module")
def size():
    return house.size()


def test_what_is_measured_is_not_zero(size, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["house.py"])
    monkeypatch.setattr(house, "size", size.copy)
    monkeypatch.setattr(house, "PATHS", {"diver.advantages": house.advantages})
    monkeypatch.setattr(house, "over_budget", lambda *_: [])  # the other paths are not measured here
    house.main()
    found = json.loads(capsys.readouterr().out)
    assert found["diver.advantages: functions"] > 10 and found["lines of code"] > 10_000


def test_functions_that_only_raise():
    code = """
def one(x):
    "Refuses."
    if x:
        raise ValueError
    for y in x:
        raise TypeError
def two(x):
    if x:
        raise ValueError
    return x
def three():
    "Nothing."
"""
    functions = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)]
    assert [house.only_raises(function) for function in functions] == [True, False, False]


def test_a_budget_may_be_passed_by_5_per_cent():
    budgets = {"files": 100, "functions": 200}
    assert house.over_budget({"files": 105, "functions": 200}, budgets) == []
    assert house.over_budget({"files": 106, "functions": 211}, budgets) == [
        "files: 106, budget 100", "functions: 211, budget 200",
    ]  # fmt: skip


def test_every_budget_is_of_a_number_that_is_measured(size):
    budgets = tomllib.loads((ROOT / "scripts" / "house.toml").read_text(encoding="utf-8"))
    paths = {f"{name}: {of}" for name in house.PATHS for of in ("files", "functions")}
    assert budgets.keys() <= size.keys() | paths

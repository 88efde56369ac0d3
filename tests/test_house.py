"""`scripts/house.py` measures this clone, or ends with status 1 and one line."""

import json
import os
import subprocess
import sys
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
    with pytest.raises(SystemExit, match="house.py: nothing passes no function of"):
        house.main()


def test_what_is_measured_is_not_zero(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(sys, "argv", ["house.py"])
    monkeypatch.setattr(house, "PATHS", {"diver.advantages": house.advantages})
    house.main()
    found = json.loads(capsys.readouterr().out)
    assert found["diver.advantages: functions"] > 10 and found["lines of code"] > 10_000

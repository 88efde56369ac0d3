"""examples/tour.ipynb runs from top to bottom: each cell in turn, in one namespace, a line with ! in a shell."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "tour.ipynb"
CELLS = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_kept_without_outputs():
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in CELLS)


@pytest.mark.slow
def test_the_notebook_runs_from_top_to_bottom(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    names = {"shell": lambda line: subprocess.run(line, shell=True, check=True, env=environment)}
    for cell in CELLS:
        exec(re.sub(r"^!(.*)$", r"shell(r'''\1''')", "".join(cell["source"]), flags=re.MULTILINE), names)
    out = capfd.readouterr().out
    assert "| TD " in out and len(re.findall(r"^[01]  \\\(", out, re.MULTILINE)) == 8
    assert re.search(r"^DIVER-MIX +\[", out, re.MULTILINE) and len(names["table"]) == 16 * 8
    for page in ("measured/index.html", "browse.html"):
        assert Path("tour", page).stat().st_size > 10_000

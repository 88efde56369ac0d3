"""scripts/one_hour.sh with TRL and a tiny model, killed once in each stage; with vLLM in tests/integrations/vllm."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trl", reason="in the environment of `make test-trl` only")

import on_cpu
from waiting import until

from diver.core.files import read_jsonl
from diver.evaluate.results import read_results

SCRIPTS = Path(__file__).parents[3] / "scripts"
METHODS = ("clip-higher", "diver-mix")
STAGES = (*(f"train-{m}" for m in METHODS), *(f"evaluate-{m}" for m in METHODS), "compare")
STEPS, SAVED = 4, 2
RECIPE = f"""
[model]
path = "countdown"
threads = 1
[data]
path = "countdown"
[data.countdown]
mix = {{ three = 1.0 }}
problems = 64
[sample]
group_size = 4
max_prompt_tokens = 24
max_tokens = 40
[train]
steps = {STEPS}
batch_size = 4
mini_batch_size = 4
learning_rate = 1e-4
save_steps = {SAVED}
[evaluate]
problems = 4
num_samples = 4
"""


def reached(folder, stage):
    """Whether a stage has something to lose: a training its first checkpoint, an evaluation its first responses."""
    of_stages = folder / "runs" / "one-hour-trl.stages"
    if not of_stages.exists() or f"{stage} begin" not in of_stages.read_text():
        return False
    kind, _, method = stage.partition("-")
    if kind == "evaluate":
        return any(file.stat().st_size for file in (folder / f"runs/eval/trl-{method}").glob("step_*/generations/*"))
    return kind != "train" or (folder / f"runs/trl-{method}/checkpoints/step_{SAVED:04d}").exists()


def test_an_hour_that_is_killed_in_each_stage(tmp_path):
    (tmp_path / "tiny.toml").write_text(RECIPE)
    words = ["sh", str(SCRIPTS / "one_hour.sh"), "trl"]
    extra = {"RECIPE": "tiny.toml", "GENERATOR": "transformers"}
    for stage in STAGES:
        process = on_cpu.start(words, tmp_path, **extra)
        until(lambda stage=stage: reached(tmp_path, stage), process)
        on_cpu.kill(process)
    said = on_cpu.run(words, tmp_path, **extra)
    found = json.loads((tmp_path / "runs" / "one-hour-trl.json").read_text())
    # Killed once, so begun twice; what had ended before was not begun again.
    assert {name: stage["begun"] for name, stage in found["stages"].items()} == dict.fromkeys(STAGES, 2)
    assert said.count("has ended before") == len(STAGES) - 1
    for method in METHODS:
        # The resumed training goes on after its checkpoint: a step has one row, and the log one of each.
        assert found["runs"][method]["steps"] == [*range(1, STEPS + 1)]
        rows = [row for _, row in read_jsonl(tmp_path / f"runs/trl-{method}/metrics.jsonl")]
        assert found["runs"][method]["seconds"]["sample"] == pytest.approx(sum(r["time/sample"] for r in rows) / STEPS)
        for step in (0, STEPS):
            result = read_results(tmp_path / f"runs/eval/trl-{method}/step_{step:04d}")["benchmarks"]
            (result,) = result.values()
            assert sum(result["grades"].values()) == 4 * 4
            assert found["evaluations"][method][str(step)]["pass@1"] == result["estimates"]["pass@1"]
    summary = said.rpartition("== summary")[2]
    assert "| compare " in summary and "| diver-mix minus clip-higher, after training |" in summary
    assert (tmp_path / "runs" / "one-hour-trl.log").read_text().endswith(said)
    done = subprocess.run([sys.executable, str(SCRIPTS / "one_hour.py")], capture_output=True, text=True)
    assert done.returncode == 1 and "measure trl" in done.stderr

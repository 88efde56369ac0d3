"""TRL and verl train with vLLM as the sampler, on a CPU, by scripts/one_hour.sh with a tiny model. `make test-vllm`."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="in the environment of `make test-vllm` only")

import on_cpu
from report_page import curve

from diver.core.files import JsonlLog
from diver.evaluate.results import read_results
from diver.pages.run_page import write_report

ROOT = Path(__file__).parents[3]
TINY = Path(__file__).with_name("tiny.toml")
METHODS = ("clip-higher", "diver-mix")
STEPS = 10
MISMATCH = "policy/logprob_mismatch"


@pytest.fixture(scope="module", params=["trl", "verl"])
def hour(request, tmp_path_factory):
    """The engine, the folder in which the script ran, and what it printed."""
    folder = tmp_path_factory.mktemp(request.param)
    words = ["sh", str(ROOT / "scripts" / "one_hour.sh"), request.param]
    return request.param, folder, on_cpu.run(words, folder, RECIPE=str(TINY))


def check_it_learns(run):
    """The outcome rises, and the mismatch of sampler and trainer is that of float32, in the metrics and on the page."""
    rows = list(JsonlLog(run / "metrics.jsonl").rows())
    outcome, mismatch = ([row[name] for row in rows] for name in ("reward/outcome", MISMATCH))
    print(f"\n{run.name}: outcome {outcome[0]:.3f} to {outcome[-1]:.3f}, mismatch at most {max(mismatch):.1e}")
    assert [row["step"] for row in rows] == [*range(1, STEPS + 1)]
    assert sum(outcome[-3:]) > sum(outcome[:3]) + 0.1
    assert all(0 <= gap < 1e-4 for gap in mismatch)
    assert curve(write_report(run), MISMATCH) == ([*range(1, STEPS + 1)], pytest.approx(mismatch, rel=1e-2))


@pytest.mark.parametrize("method", METHODS)
def test_ten_steps_of_an_easy_task(hour, method):
    engine, folder, _ = hour
    check_it_learns(folder / "runs" / f"{engine}-{method}")


@pytest.mark.parametrize("method", METHODS)
def test_vllm_evaluates_before_and_after(hour, method):
    engine, folder, _ = hour
    for step in (0, STEPS):
        result = read_results(folder / "runs" / "eval" / f"{engine}-{method}" / f"step_{step:04d}")["benchmarks"]
        (found,) = result.values()
        assert found["generator"] == "vllm" and sum(found["grades"].values()) == 32 * 8


def test_the_methods_are_compared_at_the_end(hour):
    _, _, said = hour
    table = said.rpartition("compare both methods after training")[2]
    assert "Pass@1" in table and all(method in table for method in METHODS)


def test_lora_under_trl_with_vllm(tmp_path):
    """The adapters are merged for vLLM at each step, so its log-probs are those of the trainer."""
    words = ["train", str(TINY), "--engine", "trl", "--run.folder", "run", "--trl.lora_rank", "8"]
    on_cpu.run([sys.executable, "-m", "diver", *words], tmp_path)
    check_it_learns(tmp_path / "run")


def test_a_server_for_trl_is_refused_without_cuda(tmp_path):
    words = ["train", str(TINY), "--engine", "trl", "--run.folder", "run", "--trl.vllm", "server"]
    with pytest.raises(RuntimeError) as failed:
        on_cpu.run([sys.executable, "-m", "diver", *words], tmp_path)
    line = str(failed.value).splitlines()[-1]
    assert line.startswith("diver: trl.vllm = 'server': ") and "CUDA" in line
    assert not (tmp_path / "run").exists()

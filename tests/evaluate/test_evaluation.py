"""The real command on the bundled policy: kill -9, more samples later, other graders, wrong input."""

import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from diver_command import diver, fails, succeeds
from rows import write_rows
from waiting import until

from diver.core.files import JsonlLog
from diver.core.types import DiverError, Problem
from diver.evaluate.config import EvalConfig
from diver.evaluate.evaluate import render_prompt
from diver.evaluate.run import SamplerHandle, make_tasks, sampler, sampler_metadata
from diver.sample.base import SamplingParams, requests
from diver.tasks.benchmarks import BENCHMARKS
from diver.tasks.templates import TEMPLATES
from diver.tasks.testbeds import policy_folder

DIVER = [sys.executable, "-c", "from diver.cli import main; main()"]
ENV = {**os.environ, "OMP_NUM_THREADS": "1"}
MODEL = SamplerHandle("m", lambda: None)
SMALL = ("--model", "countdown", "--benchmarks", "countdown", "--limit", "4")


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def start(*args, cwd=None):
    command = [*DIVER, "eval", *map(str, args)]
    return subprocess.Popen(command, cwd=cwd, env=ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def results(folder):
    return json.loads((Path(folder) / "results.json").read_text())


def responses(folder, name="countdown"):
    return {
        (row["problem"], row["sample"]): row["response"]
        for row in JsonlLog(Path(folder) / f"generations/{name}.jsonl").rows()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """One uninterrupted evaluation of 4 problems with 64 samples."""
    folder = tmp_path_factory.mktemp("whole")
    with contextlib.chdir(folder):
        return folder / "out", succeeds("eval", *SMALL, "--samples", 64, "--k", "1,...,64", "--out", "out")


def test_what_is_written_and_told(whole):
    folder, out = whole
    found = results(folder)
    countdown = found["benchmarks"]["countdown"]
    assert (
        found["model"].startswith("countdown@") and countdown["seed"] == 0 and countdown["generator"] == "transformers"
    )
    (signed,) = JsonlLog(folder / "provenance.jsonl").rows()
    assert signed["versions"]["torch"] and signed.keys() == {"started", "commit", "versions"}
    assert sum(countdown["grades"].values()) == 4 * 64 == sum(row["n"] for row in countdown["per_problem"])
    passes = [countdown["estimates"][f"pass@{k}"]["mean"] for k in (1, 2, 4, 8, 16, 32, 64)]
    assert passes == sorted(passes) and 0 < passes[0] < passes[-1]
    assert countdown["estimates"]["avg@64"] == countdown["estimates"]["pass@1"]
    right = [row["c"] / 64 for row in countdown["per_problem"]]
    assert countdown["estimates"]["pass@1"]["mean"] == pytest.approx(sum(right) / 4)
    assert "256 sampled, 0 stored before; 256 graded" in out and "Pass@64" in out and "results: out/results.json" in out
    assert (folder / "table.md").read_text() in out
    assert {p.name for p in folder.iterdir()} >= {"config.json", "pass_at_k.png", "pass_at_k.svg"}


def test_samples_of_one_seed_differ_and_rows_are_whole(whole):
    found = responses(whole[0])
    assert len(found) == 256 and len(set(found.values())) > 50
    parts = [[found[p, i] for i in range(start, start + 32)] for p in {p for p, _ in found} for start in (0, 32)]
    assert len({tuple(part) for part in parts}) == 8


def check_it_continues(whole):
    """Stopped before its results are there, with half a row at the end of what is stored."""
    path = Path("out/generations/countdown.jsonl")
    # All 256 where it was stopped after the last response and before the results.
    assert not Path("out/results.json").exists() and 0 < len([*JsonlLog(path).rows()]) <= 256
    with path.open("ab") as file:
        file.write(b'{"key": "0123", "problem": "countd')
    succeeds("eval", *SMALL, "--samples", 64, "--k", "1,...,64", "--out", "out")
    assert Path("out/results.json").read_bytes() == (whole[0] / "results.json").read_bytes()
    assert responses("out") == responses(whole[0])
    assert len([*JsonlLog(Path("out/provenance.jsonl")).rows()]) == 2


def test_interrupted_it_ends_with_the_same_results(whole, monkeypatch):
    append, rows = JsonlLog.append, []

    def interrupted(log, row):
        append(log, row)
        rows.append(row)
        if len(rows) == 100:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(JsonlLog, "append", interrupted)
        assert diver("eval", *SMALL, "--samples", 64, "--k", "1,...,64", "--out", "out").returncode == 130
    check_it_continues(whole)


@pytest.mark.slow
@pytest.mark.parametrize("where", [0, 1, 2])
def test_killed_at_a_random_moment_it_ends_with_the_same_results(whole, where):
    path = Path("out/generations/countdown.jsonl")
    size = (whole[0] / "generations/countdown.jsonl").stat().st_size
    stop_at = (
        random.Random(where).uniform(where / 3, (where + 0.5) / 3) * size
    )  # not near the end, which comes before the signal
    process = start(*SMALL, "--samples", 64, "--k", "1,...,64", "--out", "out")
    until(lambda: path.exists() and path.stat().st_size >= stop_at, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    check_it_continues(whole)


def test_nothing_left_to_do_loads_no_model_and_changes_nothing(whole):
    before = {p: p.read_bytes() for p in whole[0].rglob("[!.]*") if p.is_file()}
    program = "import sys; from diver.cli import main; sys.argv = sys.argv[1:]; main(); print('torch' in sys.modules)"
    args = ["diver", "eval", *SMALL, "--samples", "64", "--k", "1,...,64", "--out", str(whole[0])]
    done = subprocess.run([sys.executable, "-c", program, *args], env=ENV, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and done.stdout.endswith("False\n"), done.stderr
    assert "0 sampled, 256 stored before; 0 graded" in done.stdout
    assert {p: p.read_bytes() for p in whole[0].rglob("[!.]*") if p.is_file()} == before


def test_more_samples_and_problems_later_are_added(whole):
    succeeds("eval", *SMALL[:4], "--limit", 2, "--samples", 35, "--out", "out")
    files = [Path("out/generations/countdown.jsonl"), Path("out/grades/countdown.countdown.jsonl")]
    before = [file.read_bytes() for file in files]
    out = succeeds("eval", *SMALL, "--samples", 64, "--k", "1,...,64", "--out", "out")
    assert f"{4 * 64 - 2 * 35} sampled, {2 * 35} stored before" in out
    assert all(file.read_bytes().startswith(old) for file, old in zip(files, before, strict=True))
    # The same streams as in one go, in other passes: rounding may change a few.
    at_once, in_two = responses(whole[0]), responses("out")
    assert at_once.keys() == in_two.keys() and sum(at_once[key] == in_two[key] for key in at_once) >= 250


def test_another_temperature_is_other_samples_in_the_same_folder(whole):
    succeeds("eval", *SMALL, "--samples", 4, "--out", "out")
    rows = Path("out/generations/countdown.jsonl").read_text()
    out = succeeds("eval", *SMALL, "--samples", 4, "--out", "out", "--temperature", "0.2")
    assert "16 sampled, 0 stored before" in out and Path("out/generations/countdown.jsonl").read_text().startswith(rows)
    assert "0 sampled, 16 stored before; 0 graded" in succeeds("eval", *SMALL, "--samples", 4, "--out", "out")


def test_a_file_of_problems_graded_again_by_another_grader_without_the_model(whole):
    rows = [{"problem": f"Use 1 and {i} to make {1 + i}.", "answer": str(1 + i)} for i in range(2, 5)]
    write_rows(Path("sums.jsonl"), [*rows, *rows])
    small = (
        "--model",
        "countdown",
        "--benchmarks",
        "sums.jsonl",
        "--samples",
        8,
        "--max-tokens",
        30,
        "--template",
        "plain",
    )
    out = succeeds("eval", *small, "--out", "out")
    assert "3 duplicate rows left out, 3 problems remain" in out and "24 sampled" in out and "Maj@8" in out
    before = Path("out/generations/sums.jsonl").read_bytes()
    out = succeeds("eval", *small, "--out", "out", "--grader", "gsm8k")
    assert "0 sampled, 24 stored before; 24 graded" in out
    assert Path("out/generations/sums.jsonl").read_bytes() == before
    graders = {
        row["grader"] for p in Path("out/grades").iterdir() for row in map(json.loads, p.read_text().splitlines())
    }
    assert {g.partition("@")[0] for g in graders} == {"math", "gsm8k"} and all("@" in g for g in graders)
    Path("sums.jsonl").write_text(json.dumps({**rows[0], "answer": "99"}) + "\n")  # a reference answer put right
    assert "0 sampled, 8 stored before; 8 graded" in succeeds("eval", *small, "--out", "out")


def test_what_is_asked_and_of_how_many_problems_is_reported(whole):
    Path("math.jsonl").write_text(json.dumps({"problem": "Use 1 and 2 to make 3.", "answer": "3"}) + "\n")
    args = ("--model", "countdown", "--benchmarks", "math500=math.jsonl,countdown", "--limit", 2, "--samples", 4)
    out = succeeds("eval", *args, "--template", "plain", "--max-tokens", 30, "--out", "out")
    assert "1 of its 500 problems" in out
    assert "math500: template 'plain', temperature 0.6, up to 30 tokens a response" in out
    assert "countdown: template 'plain', temperature 1.0, up to 30 tokens a response" in out


def test_a_later_benchmark_leaves_the_results_of_the_earlier_ones(whole):
    Path("math.jsonl").write_text(json.dumps({"problem": "Use 1 and 2 to make 3.", "answer": "3"}) + "\n")
    succeeds("eval", *SMALL, "--samples", 4, "--out", "out")
    before = results("out")["benchmarks"]
    succeeds(
        "eval",
        "--model",
        "countdown",
        "--benchmarks",
        "math.jsonl",
        "--template",
        "plain",
        "--samples",
        1,
        "--out",
        "out",
    )
    after = results("out")["benchmarks"]
    assert [*after] == ["countdown", "math"] and after["countdown"] == before["countdown"]


def serve(port):
    command = [Path(sys.executable).with_name("transformers"), "serve", policy_folder(), "--port", str(port)]
    process = subprocess.Popen([*command, "--device", "cpu"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(3000):
        with contextlib.suppress(OSError), socket.create_connection(("localhost", port), timeout=1):
            return process
        time.sleep(0.1)
    process.kill()
    raise AssertionError("transformers serve did not start within five minutes")


@pytest.mark.slow
def test_an_endpoint_stopped_and_started_again_loses_nothing(whole):
    """The bundled policy behind `transformers serve`, which stays greedy unless it is told how to sample."""
    for package in ("openai", "fastapi", "uvicorn"):
        pytest.importorskip(package)
    from diver.sample.endpoint import Endpoint, EndpointGenerator

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    how = json.dumps({"do_sample": True, "top_k": 0, "temperature": 1.0, "max_new_tokens": 40})
    args = (
        "--model",
        policy_folder(),
        "--generator",
        "endpoint",
        "--url",
        f"http://127.0.0.1:{port}/v1",
        "--limit",
        4,
    )
    args += ("--extra", json.dumps({"generation_config": how}), "--samples", 8, "--out", "out")
    server = serve(port)
    try:
        process = start(*args)
        path = Path("out/generations/countdown.jsonl")
        until(lambda: path.exists() and path.read_text().count("\n") >= 6, process)
        server.kill()
        server.wait()
        server = serve(port)
        _, err = process.communicate(timeout=1800)
        if process.returncode:  # the server was away for longer than the retries bridge
            assert process.returncode == 2 and "is the server up" in err
            succeeds("eval", *args)
        greedy = EndpointGenerator(Endpoint(url=f"http://127.0.0.1:{port}/v1", model=str(policy_folder())))
        asked = requests(0, "countdown", "p", "Use 1 and 2 to make 3.", [0])
        assert "whether it samples" in greedy.note  # it refuses top_k and the like as keys of their own
        assert len(list(greedy.generate(asked, SamplingParams(0.6, 40)))) == 1
    finally:
        server.kill()
        server.wait()
    found = results("out")["benchmarks"]["countdown"]
    assert len(responses("out")) == 32 == sum(found["grades"].values()) == path.read_text().count("\n")
    assert len(set(responses("out").values())) > 8  # samples, not one greedy response to each of 4 problems
    assert (
        found["url"] == f"http://127.0.0.1:{port}/v1" and json.loads(found["extra"]["generation_config"])["do_sample"]
    )
    assert found["unscored"] == 0 and found["grades"]["correct"] >= 4
    rows = [line.split("|")[1] for line in Path("out/table.md").read_text().splitlines() if line.startswith("| Pass")]
    assert [row.strip() for row in rows] == ["Pass@1", "Pass@2", "Pass@4", "Pass@8"]
    assert "0 sampled, 32 stored before" in succeeds("eval", *args)  # and no server is asked


def test_problems_whose_prompts_are_too_long_are_left_out_where_asked(monkeypatch):
    """The bundled policy has 96 positions; afterwards neither it nor its tokenizer is needed."""
    rows = [{"id": "long", "problem": "1 + 1 " * 60, "answer": "2"}, {"id": "short", "problem": "1 + 1", "answer": "2"}]
    write_rows(Path("sums.jsonl"), rows)
    args = ("--model", "countdown", "--benchmarks", "sums.jsonl", "--template", "plain", "--samples", 2, "--out", "out")
    told = (
        r"diver: problem 'long': the prompt has \d+ tokens, but the context of countdown@\S+ is 96 "
        r"tokens.*--skip-long-prompts.*; another --template than 'plain' may be"
    )
    assert re.search(told, fails("eval", *args))
    out = succeeds("eval", *args, "--skip-long-prompts")
    assert "1 of 2 problems are skipped" in out and "2 sampled" in out
    found = results("out")["benchmarks"]["sums"]
    assert (found["problems"], found["skipped"], [row["id"] for row in found["per_problem"]]) == (1, 1, ["short"])
    before = Path("out/results.json").read_bytes()
    monkeypatch.setattr("diver.sample.policy.load_policy", None)
    assert "1 of 2 problems are skipped" in succeeds("eval", *args, "--skip-long-prompts")
    assert Path("out/results.json").read_bytes() == before
    Path("sums.jsonl").write_text(json.dumps(rows[0]) + "\n")
    line = fails("eval", *args, "--skip-long-prompts")
    assert re.search("no prompt fits into the context of countdown@.*; choose another --template", line)


def test_another_file_of_the_same_name_replaces_no_results(monkeypatch):
    """The same problems may move, and may become more."""
    rows = [{"id": f"{i}", "problem": f"1 + {i}", "answer": str(1 + i)} for i in range(3)]
    for folder, kept in (("a", rows[:2]), ("moved", rows), ("b", [{**row, "problem": "2 + 2"} for row in rows[:2]])):
        write_rows(Path(folder) / "sums.jsonl", kept)
    write_rows(Path("c/sums.jsonl"), [{**row, "id": f"c{row['id']}"} for row in rows])
    args = ("--model", "countdown", "--template", "plain", "--max-tokens", 4, "--samples", 2, "--out", "out")
    for folder, sampled in (("a", 4), ("moved", 2)):
        assert f"{sampled} sampled" in succeeds("eval", *args, "--benchmarks", f"{folder}/sums.jsonl")
    before = {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()}
    monkeypatch.setattr("diver.sample.policy.load_policy", None)  # refused before the model is loaded
    for folder in ("b", "c"):
        told = fails("eval", *args, "--benchmarks", f"{folder}/sums.jsonl")
        assert "out/results.json: has results of 'sums' with other problems, from 'moved/sums.jsonl', and they" in told
        assert f"would be replaced by those of '{folder}/sums.jsonl'; choose another --out" in told
    assert {path: path.read_bytes() for path in Path("out").rglob("*") if path.is_file()} == before


def test_what_a_benchmark_of_ones_own_cannot_be_is_told_before_anything_is_sampled(monkeypatch):
    """And two with one title are told apart."""
    rows = [{"problem": f"1 + {i}", "answer": str(1 + i)} for i in range(2)]
    write_rows(Path("sums.jsonl"), rows)
    own = "".join(
        f"{name.upper()} = Benchmark(name='{name}', title='Sums', source=Source(path='sums.jsonl'), temperature={t})\n"
        for name, t in (("cold", 0.0), ("warm", 0.6))
    )
    imports = "from diver.recipe.data import Source\nfrom diver.tasks.benchmarks import Benchmark\n"
    Path("own_two.py").write_text(imports + own)
    monkeypatch.syspath_prepend(Path.cwd())
    args = ("--model", "countdown", "--template", "plain", "--max-tokens", 4, "--out", "out")
    for more, told in [
        (
            ("--samples", 16),
            "cold: temperature 0 is greedy: one response a problem; omit --samples and --k",
        ),
        (("--k", "1,4"), "cold: temperature 0 is greedy"),
        (("--grader", "maze"), "cold: problem 'cold-0': verifier maze needs size, start, goal, walls in its meta"),
    ]:
        assert told in fails("eval", *args, "--benchmarks", "own_two:COLD", *more)
    assert not Path("out").exists()
    succeeds("eval", *args, "--benchmarks", "own_two:COLD")
    succeeds("eval", *args, "--benchmarks", "own_two:WARM")
    assert "cold |" in Path("out/table.md").read_text() and "warm |" in Path("out/table.md").read_text()


def test_how_a_server_was_asked_is_told_without_secrets():
    extra = {"top_k": -1, "stop_token_ids": [2], "api_key": "sk-1", "proxy": {"Authorization": "sk-2", "min_tokens": 3}}
    config = EvalConfig(
        model="m", generator="endpoint", url="https://me:sk-3@host:81/v1?token=sk-4#x", extra=json.dumps(extra)
    )
    told = sampler_metadata(config)
    assert "sk-" not in json.dumps(told) and told["url"] == "https://host:81/v1" and told["generator"] == "endpoint"
    assert told["extra"] == {
        "top_k": -1, "stop_token_ids": [2], "api_key": "(hidden)",
        "proxy": {"Authorization": "(hidden)", "min_tokens": 3},
    }  # fmt: skip
    assert sampler_metadata(EvalConfig(model="m")) == {"generator": "transformers"}
    config = EvalConfig(model="m", generator="vllm", extra='{"tensor_parallel_size": 2, "hf_token": "sk-1"}')
    assert sampler_metadata(config) == {
        "generator": "vllm",
        "extra": {"tensor_parallel_size": 2, "hf_token": "(hidden)"},
    }


def test_vllms_engine_gets_its_options_and_rows_are_not_known_by_them(monkeypatch):
    got, variables = [], []

    class Engine:
        def __init__(self, model, name="", chat_template_kwargs=None, **options):
            got.append((model, name, options))
            variables.append(chat_template_kwargs)
            if "colour" in options:
                raise TypeError("LLM() got an unexpected keyword argument 'colour'")

    monkeypatch.setattr("diver.sample.vllm.VLLMGenerator", Engine)
    configs = [EvalConfig(model="countdown", generator="vllm", extra=e) for e in ("", '{"tensor_parallel_size": 2}')]
    for config in configs:
        sampler(config).open()
    assert [options for _, _, options in got] == [{}, {"tensor_parallel_size": 2}]
    assert got[0][:2] == got[1][:2] and got[0][1].endswith("-vllm")
    sampler(EvalConfig(model="countdown", generator="vllm", chat_template_kwargs='{"enable_thinking": false}')).open()
    assert variables == [{}, {}, {"enable_thinking": False}]
    alone, two = (make_tasks(config, MODEL)[0].keys for config in configs)
    assert alone == two
    asked = EvalConfig(model="m", generator="endpoint", extra='{"top_k": 2}')
    assert not {*make_tasks(asked, MODEL)[0].keys.values()} & {*alone.values()}
    with pytest.raises(DiverError, match=r"--extra .*colour.*: vLLM's engine does not take it \(.*'colour'\)"):
        sampler(EvalConfig(model="countdown", generator="vllm", extra='{"colour": 1}')).open()


def test_the_help_and_the_page_say_how_a_model_is_asked():
    told = " ".join(succeeds("eval", "--help").split())
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    others = [b for b in BENCHMARKS.values() if b.domain != "synthetic"]
    assert {(b.template, b.temperature, b.max_tokens) for b in others} == {("", 0.6, 8192)}
    lab = BENCHMARKS["countdown"]
    assert (lab.template, lab.temperature, lab.max_tokens) == ("plain", 1.0, 40)
    for text in ("the chat template of a chat model", "`plain` for Countdown", "0.6, and 1.0", "8,192, and 40"):
        assert text in told
    assert "| the model's chat template | 0.6 | 8,192 tokens |" in page and "| `plain` | 1.0 | 40 tokens |" in page


def test_compare(whole):
    succeeds("eval", *SMALL, "--samples", 16, "--out", "cold", "--temperature", "0.2")
    out = succeeds("compare", whole[0], "cold")
    assert "Countdown Pass@16" in out and "temperature differs: 1.0 and 0.2" in out
    line = next(line for line in out.splitlines() if "Countdown Pass@1 " in line)
    left, right, change = (part.split()[0] for part in line.split("|")[2:5])
    assert float(right) - float(left) == pytest.approx(float(change), abs=0.11) and line.count("[") == 3


def test_wrong_input_is_one_line_and_code_2_and_nothing_is_lost(whole, monkeypatch):
    Path("empty.jsonl").write_text("")
    Path("thesis").mkdir()
    Path("thesis/a.tex").write_text("")
    out = ("--out", whole[0])
    before = {p: p.read_bytes() for p in whole[0].rglob("*") if p.is_file()}
    monkeypatch.setattr("diver.tasks.hub.newest_commit", lambda *args: "1234abcd")
    for args, told in [
        ((*SMALL, "--samples", 4, "--k", "1,8", *out), r"k = 8 needs more than 4 samples"),
        ((*SMALL, "--k", "one", *out), "--k one"),
        (("--model", "countdown", "--benchmarks", "aime42"), "aime42.*aime24, aime25, amc, math500"),
        (("--model", "countdown", "--benchmarks", "empty.jsonl"), "empty.jsonl.*not one problem"),
        (("--model", "countdown", "--benchmarks", "none.jsonl"), "none.jsonl: no such file"),
        (("--model", "countdown", "--benchmarks", "countdown,countdown"), "twice"),
        (("--benchmarks", "countdown"), "--model: name"),
        ((*SMALL, "--generator", "dice"), "transformers.*vllm.*endpoint"),
        ((*SMALL, "--url", "http://host/v1"), "--url: is used only with --generator endpoint"),
        ((*SMALL, "--generator", "vllm", "--url", "http://host/v1"), "--url: is used only with --generator endpoint"),
        ((*SMALL, "--timeout", "5"), "--timeout: is used only with --generator endpoint"),
        ((*SMALL, "--extra", '{"top_k": 1}'), "--extra: is used only with --generator endpoint or vllm"),
        ((*SMALL, "--generator", "vllm", "--extra", "2"), "--extra 2: must be a JSON object"),
        (
            (*SMALL, "--generator", "endpoint", "--url", "localhost"),
            "url: must be an http:// or https:// address",
        ),
        ((*SMALL, "--generator", "endpoint", "--extra", "top_k=-1"), "--extra top_k=-1: must be a JSON object"),
        ((*SMALL, "--grader", "teacher"), "teacher.*math, gsm8k"),
        ((*SMALL, "--template", "poem"), "poem.*paper"),
        ((*SMALL, "--samples", 0), "command line: samples: must be at least 1, not 0"),
        ((*SMALL, "--seed", -1), "command line: seed: must be at least 0, not -1"),
        ((*SMALL, "--max-num-seqs", -1), "command line: max_num_seqs: must be at least 0, not -1"),
        ((*SMALL, "--out", "thesis"), "thesis: has files but no config.json; choose another --out"),
        (
            ("--model", "some/other", "--benchmarks", "countdown", *out),
            "has an evaluation of another model .model was 'countdown@.*', now 'some/other@1234abcd'",
        ),
    ]:
        line = fails("eval", *args)
        assert re.search(told, line), line
    for args, told in [
        ((whole[0],), "two results or more"),
        ((whole[0], "thesis"), f"{whole[0]} is an evaluation and thesis is not: compare runs with runs, or"),
        ((whole[0], whole[0], "--baseline", "a"), f"--baseline: is for runs, and {whole[0]} is an evaluation"),
        ((whole[0], whole[0], "--uncertainty", "none"), "--uncertainty: is for runs"),
    ]:
        line = fails("compare", *args)
        assert told in line, line
    assert {p: p.read_bytes() for p in whole[0].rglob("*") if p.is_file()} == before
    assert not Path("runs").exists()


def test_a_template_that_begins_the_response_is_none_for_messages():
    """A server that has the chat template cannot be given it; its beginning would be lost without a word."""
    server = SimpleNamespace(name="endpoint 'x'")
    problem, begins = (
        Problem("p", "1 + 1?", "2"),
        next(name for name, layout in TEMPLATES.items() if layout.chat and layout.assistant),
    )
    with pytest.raises(
        DiverError, match=f"--template: '{begins}' begins the response; chat messages cannot: choose 'chat'"
    ):
        render_prompt(problem, begins, server)
    assert render_prompt(problem, "chat", server)[-1] == {"role": "user", "content": "1 + 1?"}


def test_where_no_response_could_be_scored_the_table_says_so_and_there_is_no_curve(tmp_path, monkeypatch):
    (tmp_path / "fails_always.py").write_text("def grade(response, problem):\n    raise KeyError('level')\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    words = ("--model", "countdown", "--benchmarks", " countdown", "--limit", 2, "--samples", 2, "--out", "out")
    printed = succeeds("eval", *words, "--grader", "fails_always:grade")
    said = "4 responses are unscored: left out, not counted as wrong"
    assert f"{said}; Pass@1 covers none of 2 problems; Pass@2 covers none of 2 problems\n" in printed
    assert Path("out/results.json").exists() and not [*Path("out").glob("pass_at_k.*")]

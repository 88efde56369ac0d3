"""`diver judge` with a real model: SmolLM2-135M behind a real server on loopback, with structured output.

vLLM by `--structured-output`, where its command is on the PATH; `transformers serve` by weights on tokens.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from model_judge.prompt import rankings
from model_judge.run import Judge, run

pytest.importorskip("openai")

ANSWERS = {"short": "7.", "longer": "There are 3 and 4 of them, and 3 + 4 = 7, so the answer is 7."}


def written(path, answer):
    path.write_text(json.dumps({"problem": "Ann has 3 apples and Bob has 4. How many are there?", "response": answer}))
    return path


def in_line(model):
    """`transformers serve` knows no form; weights that grow along each ranking's tokens keep a reply to one of them."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    kept = [[*tokenizer(f"RANKING: {ranking}").input_ids, tokenizer.eos_token_id] for ranking in rankings("AB")]
    bias = [[ids[: i + 1], 100.0 * (i + 1)] for ids in kept for i in range(len(ids))]
    return {"extra": json.dumps({"generation_config": json.dumps({"sequence_bias": bias})})}


SERVERS = {
    "transformers": (("--device", "cpu"), in_line),
    "vllm": (
        ("--enforce-eager", "--dtype", "float32", "--max-model-len", "4096"),
        lambda model: {"structured_output": True},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_a_real_model_as_the_judge(server, smollm2, tmp_path):
    """SmolLM2-135M behind a real server with structured output: no cell of the table is empty, whatever it is worth."""
    for package in ("transformers", "fastapi", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    folders = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    if (command := shutil.which(server, path=folders)) is None:
        pytest.skip(f"the command {server} is not on the PATH")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    files = tuple(f"{name}={written(tmp_path / f'{name}.jsonl', answer)}" for name, answer in ANSWERS.items())
    flags, form = SERVERS[server]
    how = {
        "judge": str(smollm2),
        "url": f"http://127.0.0.1:{port}/v1",
        "max_tokens": 64,
        "concurrency": 2,
        **form(smollm2),
    }
    process = subprocess.Popen(
        [command, "serve", smollm2, "--port", str(port), *flags],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"},
    )
    try:
        for _ in range(9000):  # a quarter of an hour: nothing is asked of a server that does not listen yet
            assert process.poll() is None, f"{server} serve ended before it listened"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        run(Judge(models=files, out=tmp_path / "out", **how), print)
    finally:
        process.terminate()  # not killed: vLLM's workers would be left
        process.wait()
    result = json.loads((tmp_path / "out" / "ranks.json").read_text())
    assert result["comparisons"] == result["in_whole_rounds"] == 2 <= result["requests"] <= 4
    assert result["problems_ranked"] == 1 and result["no_verdict"] == 0 and result["tokens"] > 0
    table = (tmp_path / "out" / "table.md").read_text()
    assert table.count("Overall Avg.: ") == 2 and "–" not in table  # a single problem has no interval
    stored = (tmp_path / "out" / "replies.jsonl").read_bytes()
    run(Judge(models=files, out=tmp_path / "out", **how), print)  # nothing is left to ask: no server is needed
    assert (tmp_path / "out" / "replies.jsonl").read_bytes() == stored

"""Real vLLM samples what transformers samples, in this process and as a server. `make test-vllm`."""

import json
import shutil
import socket
import sys
import urllib.error
import urllib.request

import pytest

pytest.importorskip("vllm", reason="in the environment of `make test-vllm` only")

import on_cpu
from waiting import until

from diver.evaluate.comparison import comparisons
from diver.evaluate.results import read_results
from diver.recipe.sections import Model
from diver.sample.policy import load_policy
from diver.tasks.testbeds import policy_folder

SIZE = ("--limit", "64", "--samples", "64", "--k", "1", "--template", "plain")
POINTS = 0.03
SERVED = "tiny"


def evaluated(folder, *words, **extra):
    """The rows and the result of `diver eval` on 64 Countdown problems x 64 samples."""
    on_cpu.run([sys.executable, "-m", "diver", "eval", *SIZE, "--out", "out", *words], folder, **extra)
    rows = [json.loads(line) for line in (folder / "out" / "generations" / "countdown.jsonl").read_text().splitlines()]
    result = read_results(folder / "out")["benchmarks"]["countdown"]
    assert len(rows) == sum(result["grades"].values()) == 64 * 64 and not result["unscored"]
    return rows, result


@pytest.fixture(scope="module")
def by_transformers(tmp_path_factory):
    return evaluated(tmp_path_factory.mktemp("transformers"), "--model", "countdown")


def check_the_same_policy(name, found, by_transformers):
    """The 95 % interval of the difference of Pass@1 lies within 3 points of 0, and the texts begin alike."""
    (theirs, other), (ours, base) = found, by_transformers
    change = comparisons(base, other)[0].change
    print(f"\n{name}: Pass@1 {100 * change.mean:+.2f} points [{100 * change.low:+.2f}, {100 * change.high:+.2f}]")
    assert -POINTS < change.low <= change.high < POINTS
    first = [{row["response"][:1] for row in rows} for rows in (theirs, ours)]
    assert first[0] == first[1]


def test_vllm_solves_as_many_problems_as_transformers(tmp_path, by_transformers):
    """With the engine in processes of its own, as users have it."""
    own = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    found = evaluated(tmp_path, "--model", "countdown", "--generator", "vllm", **own)
    check_the_same_policy("vLLM in this process", found, by_transformers)


LOGPROBS = """
import json, sys
import vllm
from diver.sample.base import SamplingParams, requests
from diver.sample.vllm import VLLMGenerator, sampling_params
from diver.tasks import countdown

if __name__ == "__main__":
    generator = VLLMGenerator(sys.argv[1])
    problems = countdown.problems(countdown.Countdown(), 64, held_out=True)
    asked = [r for p in problems for r in requests(0, "countdown", p.id, p.prompt, range(2))]
    prompts = [generator.tokenizer(r.prompt)["input_ids"] for r in asked]
    params = [vllm.SamplingParams(**sampling_params(r, SamplingParams(1.0, 40)), logprobs=0) for r in asked]
    outputs = generator.engine.generate([{"prompt_token_ids": p} for p in prompts], params, use_tqdm=False)
    rows = []
    for prompt, output in zip(prompts, outputs, strict=True):
        (sampled,) = output.outputs
        found = [step[token].logprob for token, step in zip(sampled.token_ids, sampled.logprobs, strict=True)]
        rows.append([prompt, list(sampled.token_ids), found])
    with open("logprobs.json", "w") as file:
        json.dump(rows, file)
"""


def test_log_probs_of_equal_texts_agree(tmp_path):
    """In float32, of what vLLM sampled: to 1e-3 for each token."""
    torch = pytest.importorskip("torch")
    on_cpu.run([sys.executable, "-c", LOGPROBS, str(policy_folder())], tmp_path)
    rows = json.loads((tmp_path / "logprobs.json").read_text())
    model, largest, tokens = load_policy(Model()).model, 0.0, 0
    for prompt, sampled, theirs in rows:
        with torch.no_grad():
            logits = model(torch.tensor([prompt + sampled])).logits[0, len(prompt) - 1 : -1].double()
        ours = logits.log_softmax(-1).gather(-1, torch.tensor(sampled)[:, None])[:, 0]
        largest = max(largest, float((ours - torch.tensor(theirs, dtype=torch.float64)).abs().max()))
        tokens += len(sampled)
    print(f"\nlog-probs of {tokens} tokens: differ by {largest:.1e} at most")
    assert len(rows) == 128 and tokens > 1000 and largest < 1e-3


@pytest.fixture
def server(tmp_path):
    """`vllm serve` on a copy of the policy whose generation_config.json asks for other sampling; its address."""
    folder = tmp_path / "policy"
    shutil.copytree(policy_folder(), folder)
    settings = json.loads((folder / "generation_config.json").read_text())
    settings |= {"do_sample": True, "top_k": 2, "repetition_penalty": 1.5, "min_p": 0.5}
    (folder / "generation_config.json").write_text(json.dumps(settings))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(folder), "--served-model-name", SERVED]
    process = on_cpu.start([*serve, "--host", "127.0.0.1", "--port", str(port)], tmp_path, "server.log")

    def answers():
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{port}/health").status == 200
        except urllib.error.URLError:
            return False

    try:
        until(answers, process)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        on_cpu.kill(process)


def test_a_server_of_vllm_is_asked_for_the_plain_distribution(tmp_path, server, by_transformers):
    """`diver eval` overrides what the served model's generation_config.json says."""
    found = evaluated(tmp_path, "--model", SERVED, "--generator", "endpoint", "--url", server)
    check_the_same_policy("vllm serve", found, by_transformers)

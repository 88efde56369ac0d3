"""vLLM: what it is asked, and, where it is installed, the real engine on the bundled policy."""

import json
import sys
from collections import Counter
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import on_cpu
import pytest
from scipy.stats import chisquare

from diver.core.types import DiverError, Rollout
from diver.sample import vllm
from diver.sample.base import Request, SamplingParams
from diver.tasks import countdown
from diver.tasks.testbeds import policy_folder


def test_what_vllm_is_asked_and_how_its_answer_is_read():
    """vLLM itself needs a GPU; here its arguments, and an output as its documentation gives it."""
    request = Request("p", 3, "Hello", 2**62 + 1)
    assert vllm.sampling_params(request, SamplingParams(0.6, 8192, (7,))) == {
        "n": 1, "seed": 2**62 + 1, "temperature": 0.6, "top_p": 1.0, "top_k": -1, "min_p": 0.0, "max_tokens": 8192,
        "skip_special_tokens": True, "stop": [], "stop_token_ids": [7],
    }  # fmt: skip
    for reason, truncated in (("stop", False), ("length", True)):
        completion = SimpleNamespace(text=" there", token_ids=(5, 6, 2), finish_reason=reason)
        output = SimpleNamespace(outputs=[completion])
        tokenizer = SimpleNamespace(decode=lambda tokens, **options: {(5, 6, 2): "there"}[tokens])
        got = vllm.generation(request, output, tokenizer)  # as transformers decodes these tokens
        assert got.key == ("p", 3) and got.rollout == Rollout("there", (5, 6, 2), index=3, truncated=truncated)
    assert vllm.precision_note("torch.bfloat16") == "vLLM computes in bfloat16"


def test_vllm_that_is_not_installed_is_told():
    if find_spec("vllm"):
        pytest.skip("vllm is installed")
    with pytest.raises(DiverError, match=r"^vllm: not installed.*\[vllm\]"):
        vllm.VLLMGenerator("some/model")


def run(program, folder, *args):
    """A process of its own, because vLLM keeps what it takes."""
    return on_cpu.run([sys.executable, "-c", program, *map(str, args)], folder)


DRAW = """
import json, sys
from diver.sample.base import SamplingParams, requests
from diver.sample.vllm import VLLMGenerator

if __name__ == "__main__":
    folder, prompt, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    generator = VLLMGenerator(folder, dtype="float32", enforce_eager=True)
    wanted = requests(0, "countdown", "p", prompt, range(n))
    drawn = [list(generator.generate(wanted, SamplingParams(0.6, 3), have)) for have in ((), {("p", 0)})]
    rows = [[(g.sample, g.rollout.response) for g in part] for part in drawn]
    print(json.dumps([generator.context, *rows]))
"""


@pytest.mark.slow
def test_vllm_draws_from_the_distribution_of_the_model_by_the_seed_of_each_request(tmp_path):
    pytest.importorskip("vllm")
    torch = pytest.importorskip("torch")
    from diver.recipe.sections import Model
    from diver.sample.policy import load_policy

    problem, n = countdown.problems(countdown.Countdown(), 1, held_out=True)[0], 2000
    out = run(DRAW, tmp_path, policy_folder(), problem.prompt, n)
    context, first, again = json.loads(
        next(line for line in out.splitlines() if line.startswith("[96"))
    )  # amid its log
    assert context == 96 and [g[0] for g in first] == [*range(n)]
    assert sum(a == b for a, b in zip(first[1:], again, strict=True)) >= 0.99 * n
    policy = load_policy(Model())
    encoded = policy.tokenizer(problem.prompt, add_special_tokens=False)["input_ids"]
    begun = policy.tokenizer("\\(", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = policy.model(torch.tensor([encoded + begun])).logits[0, -1].double()
    chance = torch.softmax(logits / 0.6, -1).numpy()
    seen = Counter(policy.tokenizer(g[1], add_special_tokens=False)["input_ids"][1] for g in first)
    common = [token for token in np.argsort(-chance) if chance[token] * n > 5]
    observed = np.array([seen[int(token)] for token in common])
    expected = np.append(chance[common], 1 - chance[common].sum()) * n
    assert len(common) > 2 and chisquare(np.append(observed, n - observed.sum()), expected).pvalue > 1e-4


@pytest.mark.slow
def test_diver_eval_by_vllm_and_again_without_it(tmp_path):
    pytest.importorskip("vllm")
    main = "from diver.cli import main\nif __name__ == '__main__': main()"
    args = ("eval", "--model", "countdown", "--generator", "vllm", "--limit", 4, "--samples", 16, "--out", "out")
    assert "64 sampled, 0 stored before; 64 graded" in run(main, tmp_path, *args)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    found = results["benchmarks"]["countdown"]
    assert results["model"].endswith("-vllm") and found["generator"] == "vllm"
    assert sum(found["grades"].values()) == 64 and found["grades"]["correct"] >= 8 and not found["unscored"]
    again = run("import sys; sys.modules['vllm'] = None\n" + main, tmp_path, *args)
    assert "0 sampled, 64 stored before; 0 graded" in again


LOGPROBS = """
import json, sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    engine = LLM(sys.argv[1], dtype="float32", enforce_eager=True, max_model_len=96)
    (output,) = engine.generate([sys.argv[2]], SamplingParams(temperature=0.0, max_tokens=8, logprobs=1))
    said = output.outputs[0]
    print("read", json.dumps([[*output.prompt_token_ids], [*said.token_ids], said.cumulative_logprob]))
"""


@pytest.mark.slow
def test_vllm_loads_a_blended_folder_with_the_log_probs_of_transformers(tmp_path):
    pytest.importorskip("vllm")
    torch = pytest.importorskip("torch")
    from diver.recipe.sections import Model
    from diver.sample.blend import blend
    from diver.sample.policy import load_policy

    base, trained, between = policy_folder(), tmp_path / "trained", tmp_path / "between"
    policy = load_policy(Model())
    torch.manual_seed(0)
    for weights in policy.model.parameters():
        weights.data += 0.1 * weights.abs().mean() * torch.randn_like(weights)
    for part in (policy.model, policy.tokenizer):
        part.save_pretrained(trained)
    blend(base, trained, 0.5, between)
    prompt = countdown.problems(countdown.Countdown(), 1, held_out=True)[0].prompt
    out = run(LOGPROBS, tmp_path, between, prompt)
    asked, said, logprob = json.loads(next(line for line in out.splitlines() if line.startswith("read"))[5:])

    def of_transformers(folder):
        model = load_policy(Model(path=str(folder))).model
        with torch.no_grad():
            logits = model(torch.tensor([asked + said])).logits[0, len(asked) - 1 : -1]
        return float(logits.log_softmax(-1)[range(len(said)), said].sum())

    assert logprob == pytest.approx(of_transformers(between), abs=1e-3)
    assert abs(of_transformers(trained) - of_transformers(between)) > 1e-2

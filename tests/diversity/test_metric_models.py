"""The two metrics that a model computes, each by a real one."""

import sys

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from diver.core.types import DiverError, Group, Problem, Reward, Rollout
from diver.diversity import Diversity, Embedding, HiddenState, embedding_diversity, hidden_state_diversity, measure
from diver.diversity.vectors import _encoder as load_encoder
from diver.diversity.vectors import _language_model as load_model
from diver.diversity.vectors import cosine_diversity, hidden_states
from diver.methods import method_named
from diver.tasks.testbeds import policy_folder

SKY = ["The sky is blue.", "The colour of the sky is blue.", "Three dogs ran through the old town."]
STEPS = ["( 3 + 4 = 7 )", "( 3 + 4 = 7 ) ( 7 * 2 = 14 )", "( 9 - 4 = 5 ) ( 5 * 2 = 10 )", "( 3 + 4 = 7 )"]
POLICY = HiddenState(model=str(policy_folder()))


def group(responses):
    return Group(Problem("p", "?", "14"), tuple(Rollout(r, reward=Reward(1.0)) for r in responses))


def test_embedding_diversity_sees_meaning(minilm):
    d = embedding_diversity(SKY, minilm)
    assert 0 < d[0] < d[2] and 0 < d[1] < d[2] and d[2] > 0.8
    assert embedding_diversity(SKY[:1], minilm).tolist() == [0]
    np.testing.assert_allclose(embedding_diversity(SKY[:1] * 3, minilm), 0, atol=1e-6)


def test_embedding_diversity_is_that_of_the_encoder(minilm):
    from sentence_transformers import SentenceTransformer, util

    encoder = SentenceTransformer(minilm.model)
    cosine = util.cos_sim(*[encoder.encode(SKY)] * 2).numpy()
    np.testing.assert_allclose(embedding_diversity(SKY, minilm), (3 - cosine.sum(1)) / 2, atol=1e-5)
    prompted = Embedding(model=minilm.model, prompt="search_query: ")
    cosine = util.cos_sim(*[encoder.encode([f"search_query: {s}" for s in SKY])] * 2).numpy()
    np.testing.assert_allclose(embedding_diversity(SKY, prompted), (3 - cosine.sum(1)) / 2, atol=1e-5)


def test_hidden_states_are_the_means_of_the_last_layer():
    model = AutoModelForCausalLM.from_pretrained(policy_folder(), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(policy_folder())
    expected = []
    for text in STEPS:
        with torch.no_grad():
            states = model(torch.tensor([tokenizer(text)["input_ids"]]), output_hidden_states=True).hidden_states
        expected.append(states[-1][0].mean(0).numpy())
    np.testing.assert_allclose(hidden_states(STEPS, POLICY), expected, atol=1e-5)
    np.testing.assert_allclose(hidden_state_diversity(STEPS, POLICY), cosine_diversity(np.array(expected)), atol=1e-5)


def test_hidden_states_after_a_prompt():
    """The model reads the prompt; the mean is over the tokens of the response."""
    model = AutoModelForCausalLM.from_pretrained(policy_folder(), dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(policy_folder())
    prompt = "3 4 7 = 14 :"
    before, states = tokenizer(prompt, add_special_tokens=False)["input_ids"], hidden_states(STEPS, POLICY, prompt)
    for text, found in zip(STEPS, states, strict=True):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            last = model(torch.tensor([before + ids]), output_hidden_states=True).hidden_states[-1][0]
        np.testing.assert_allclose(found, last[len(before) :].mean(0).numpy(), atol=1e-5)
    assert np.abs(states - hidden_states(STEPS, POLICY)).max() > 1e-2


def test_the_token_that_begins_a_text_is_read_and_is_not_of_the_response(tmp_path):
    """As Llama's tokenizers have it. A response without a token stays one."""
    from tokenizers.processors import TemplateProcessing

    model, tokenizer = (kind.from_pretrained(policy_folder()) for kind in (AutoModelForCausalLM, AutoTokenizer))
    token = tokenizer.eos_token
    first = TemplateProcessing(single=f"{token} $A", special_tokens=[(token, tokenizer.eos_token_id)])
    tokenizer.backend_tokenizer.post_processor = first
    tokenizer.bos_token = token
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path)
    assert AutoTokenizer.from_pretrained(tmp_path)("")["input_ids"] == [tokenizer.eos_token_id]
    settings, prompt = HiddenState(model=str(tmp_path)), "3 4 7 = 14 :"
    ids, before = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in (STEPS[0], prompt))
    for given, read in (("", []), (prompt, before)):
        found = hidden_states([STEPS[0], ""], settings, given)
        with torch.no_grad():
            whole = model(torch.tensor([[tokenizer.eos_token_id, *read, *ids]]), output_hidden_states=True)
        np.testing.assert_allclose(found[0], whole.hidden_states[-1][0, -len(ids) :].mean(0), atol=1e-5)
        assert (found[1] == 0).all()


def test_hidden_states_of_the_first_tokens():
    first = HiddenState(model=POLICY.model, max_tokens=5)
    states = hidden_states(STEPS, first)
    np.testing.assert_allclose(states[0], states[1], atol=1e-5)  # they begin alike
    assert np.abs(states[0] - states[2]).max() > 1e-2


def test_a_response_without_a_token():
    assert (hidden_states([*STEPS, ""], POLICY)[4] == 0).all()
    assert hidden_state_diversity(["", ""], POLICY).tolist() == [0, 0]
    assert hidden_state_diversity([STEPS[0], ""], POLICY).tolist() == [1, 1]


def test_measured_by_name_with_one_load(minilm):
    how = Diversity(embedding=minilm, hidden_state=POLICY)
    load_encoder.cache_clear()
    load_model.cache_clear()
    for _ in range(2):
        measured = measure(group(STEPS), ["embedding", "hidden-state"], how)
    assert load_encoder.cache_info().misses == load_model.cache_info().misses == 1
    np.testing.assert_allclose(measured["hidden-state"], hidden_state_diversity(STEPS, POLICY), atol=1e-9)


def test_rewarded_as_a_recipe_says(minilm):
    table = {"embedding": {"model": minilm.model}, "hidden_state": {"model": POLICY.model}}
    rewards = {"embedding": {"weight": 2.0}, "hidden-state": {}, "textual": {"weight": 0.0}}
    method = method_named("diver-td", diversity_rewards=rewards, diversity=table)
    (shaped,) = method.apply([group(STEPS)], progress=0.0)
    d = measure(group(STEPS), ["embedding", "hidden-state"], method.diversity)
    expected = 0.1 * (2 * np.clip(d["embedding"], 0, 0.65) + np.clip(d["hidden-state"], 0, 0.65)) / 3
    np.testing.assert_allclose([r.reward.diversity for r in shaped.rollouts], expected, atol=1e-6)


@pytest.mark.parametrize(
    "metric, cls, key",
    [
        (embedding_diversity, Embedding, "diversity.embedding.model"),
        (hidden_state_diversity, HiddenState, "diversity.hidden_state.model"),
    ],
)
def test_a_model_that_is_none_is_told_in_one_line(metric, cls, key, tmp_path):
    pytest.importorskip("sentence_transformers")
    with pytest.raises(DiverError, match=rf"{key} '.*nothing': cannot be loaded") as error:
        metric(["a", "b"], cls(model=str(tmp_path / "nothing")))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("package", ["sentence_transformers", "torch"])
def test_what_is_not_installed_is_told(package, monkeypatch):
    metric, cls = {
        "sentence_transformers": (embedding_diversity, Embedding),
        "torch": (hidden_state_diversity, HiddenState),
    }[package]
    monkeypatch.setitem(sys.modules, package, None)
    load_encoder.cache_clear()
    load_model.cache_clear()
    with pytest.raises(DiverError, match=r"pip install .*\[(embedding|train)\]"):
        metric(["a", "b"], cls(model="x"))


@pytest.mark.parametrize("settings, bad", [(Embedding, {"batch": 0}), (HiddenState, {"max_tokens": 0})])
def test_bad_settings(settings, bad):
    with pytest.raises(ValueError, match="must be at least 1"):
        settings(**bad)


@pytest.mark.slow
def test_hidden_states_of_a_pretrained_model(smollm2):
    d = hidden_state_diversity(SKY, HiddenState(model=str(smollm2)))
    assert 0 < d[0] < d[2] and 0 < d[1] < d[2]

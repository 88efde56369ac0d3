"""Counts of responses from the tree of prefixes, against the model's own probabilities of whole responses."""

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from diver.recipe.data import Countdown
from diver.recipe.sections import Model
from diver.sample import prefix_tree
from diver.sample.base import SamplingParams, requests
from diver.sample.policy import load_policy
from diver.sample.prefix_tree import PrefixTreeGenerator
from diver.tasks.countdown import problems

PROMPTS = [p.prompt for p in problems(Countdown(), 20, held_out=True)]
HOW = SamplingParams(1.0, 40)


@pytest.fixture(scope="module")
def policy():
    return load_policy(Model(threads=1))


def count(policy, prompts, n, *, seed=3, max_prefixes=512, **how):
    """The generations of each prompt."""
    generator = PrefixTreeGenerator(policy, seed=seed, max_prefixes=max_prefixes)
    wanted = [r for i, prompt in enumerate(prompts) for r in requests(0, "b", str(i), prompt, range(n))]
    found = [[] for _ in prompts]
    for generation in generator.generate(wanted, HOW._replace(**how)):
        found[int(generation.problem_id)].append(generation)
    return found


def probability(policy, prompt, tokens, temperature):
    ids = policy.tokenizer(prompt, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = policy.model(torch.tensor([[*ids, *tokens]])).logits[0, len(ids) - 1 : -1]
    return float(torch.log_softmax(logits / temperature, -1)[range(len(tokens)), list(tokens)].sum().exp())


@pytest.mark.parametrize(("temperature", "max_prefixes"), [pytest.param(0.6, 512, marks=pytest.mark.slow), (0.6, 40)])
def test_responses_come_as_often_as_their_probability_says(policy, temperature, max_prefixes):
    """Prompts of different lengths side by side; few prefixes at once cut the frontier into parts again and again."""
    n, how = 600, {"temperature": temperature, "max_prefixes": max_prefixes}
    named = count(policy, PROMPTS[:2], n, seed=4, **how)  # which responses are looked at is settled by other samples
    for prompt, others, tallies in zip(PROMPTS[:2], named, count(policy, PROMPTS[:2], n, **how), strict=True):
        assert sum(t.count for t in tallies) == n
        seen = {t.rollout.tokens: t.count for t in tallies}
        expected = {t.rollout.tokens: probability(policy, prompt, t.rollout.tokens, temperature) for t in others[:15]}
        expected = {tokens: n * p for tokens, p in expected.items() if n * p > 5}
        found = [seen.get(tokens, 0) for tokens in expected]
        assert len(expected) > 4
        rest = n - sum(found), n - sum(expected.values())
        assert chisquare([*found, rest[0]], [*expected.values(), rest[1]]).pvalue > 1e-3


def test_at_temperature_0_every_sample_is_the_greedy_one(policy):
    for prompt, tallies in zip(PROMPTS[:4], count(policy, PROMPTS[:4], 8, temperature=0.0), strict=True):
        ids = policy.tokenizer(prompt, return_tensors="pt", add_special_tokens=False)["input_ids"]
        greedy = policy.model.generate(ids, do_sample=False, max_new_tokens=40, pad_token_id=0)[0, ids.shape[1] :]
        assert [(t.rollout.tokens, t.count) for t in tallies] == [(tuple(greedy.tolist()), 8)]


def test_every_prompt_has_its_own_samples_in_its_own_place(policy):
    found = count(policy, PROMPTS, 16)
    assert len(found) == len(PROMPTS) > 16
    for i, tallies in enumerate(found):
        assert sum(t.count for t in tallies) == 16 and len({t.rollout.tokens for t in tallies}) == len(tallies)
        assert [t.count for t in tallies] == sorted((t.count for t in tallies), reverse=True)
        assert [t.sample for t in tallies] == [sum(t.count for t in tallies[:j]) for j in range(len(tallies))]
        answer = tallies[0].rollout.tokens
        assert probability(policy, PROMPTS[i], answer, 1.0) > 5 * probability(policy, PROMPTS[i - 1], answer, 1.0)


def test_a_cut_is_told_from_an_end(policy):
    (whole,), (cut,) = count(policy, PROMPTS[:1], 50), count(policy, PROMPTS[:1], 50, max_tokens=5)
    assert not any(t.rollout.truncated for t in whole)
    assert all(t.rollout.truncated and len(t.rollout.tokens) == 5 for t in cut)
    assert policy.tokenizer.eos_token not in whole[0].rollout.response


def test_the_same_seed_gives_the_same_counts(policy):
    def told(seed):
        return [[(t.rollout.tokens, t.count) for t in tallies] for tallies in count(policy, PROMPTS[:2], 16, seed=seed)]

    assert told(1) == told(1) != told(2)


def test_a_sharp_policy_runs_few_prefixes(policy):
    """Near temperature 0 all samples are one response, so 100,000 of them are one row."""
    (tallies,) = count(policy, PROMPTS[:1], 100_000, temperature=1e-4)
    assert len(tallies) == 1 and tallies[0].count == 100_000
    assert np.isclose(probability(policy, PROMPTS[0], tallies[0].rollout.tokens, 1e-4), 1.0)


def rows(policy, n, have=(), name="", prompts=PROMPTS):
    """Each sample with its response, in the order in which rows of generations are stored: first sample, count."""
    wanted = [r for i, prompt in enumerate(prompts) for r in requests(0, "b", str(i), prompt, range(n))]
    generations = PrefixTreeGenerator(policy, name, seed=3).generate(wanted, HOW, have)
    return {g.key: (g.count, g.rollout.tokens) for g in generations}


def samples_of(stored):
    return {(problem, sample + i) for (problem, sample), (n, _) in stored.items() for i in range(n)}


def test_what_is_missing_is_drawn_as_before(policy, monkeypatch):
    """Two random streams: prompts that are complete in the first are not run again, and the second is as in one go."""
    whole = rows(policy, 8)
    assert {int(problem) for problem, _ in whole} == {*range(20)} and samples_of(whole) == {
        (str(problem), sample) for problem in range(20) for sample in range(8)
    }
    half = dict([*whole.items()][::2])
    assert rows(policy, 8, samples_of(half)) == {key: row for key, row in whole.items() if key not in half}
    first, started = {key: row for key, row in whole.items() if int(key[0]) < 16}, []
    with monkeypatch.context() as patch:
        original = prefix_tree.sample_counts
        patch.setattr(prefix_tree, "sample_counts", lambda *given: started.append(given[1]) or original(*given))
        assert {**first, **rows(policy, 8, samples_of(first))} == whole
    assert [len(prompts) for prompts in started] == [4]
    assert rows(policy, 8, samples_of(whole)) == {}
    # The first 16 prompts alone have the same samples: the others have a stream of their own.
    assert rows(policy, 8, prompts=PROMPTS[:16]) == first


def test_counts_of_another_machine_are_completed_to_the_number_of_samples(policy):
    """What is stored covers half of a response as this machine counts it."""
    (_, (count, _)), *_ = rows(policy, 64, prompts=PROMPTS[:1]).items()
    assert count >= 2
    have = {("0", sample) for sample in range(count - 1)}
    assert samples_of(rows(policy, 64, have, prompts=PROMPTS[:1])) == {("0", i) for i in range(count - 1, 64)}


def test_models_of_other_names_draw_independently(policy):
    """So half of the samples from each of two policies is estimated without bias."""
    one, again, other = (rows(policy, 16, name=name, prompts=PROMPTS[:2]) for name in ("a", "a", "b"))
    assert one == again != other

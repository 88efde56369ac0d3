"""HFGenerator on the bundled policy, against transformers' own generate and forward pass."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from transformers import GPT2Config, GPT2LMHeadModel, Lfm2Config, Lfm2ForCausalLM

from diver.core.seeds import stream_seed
from diver.core.types import DiverError
from diver.recipe.data import Countdown
from diver.recipe.sections import Model
from diver.sample.decoding import Job, check_layers
from diver.sample.hf import HFGenerator, draw, sample_groups
from diver.sample.policy import Policy, load_policy
from diver.tasks.countdown import problems
from diver.tasks.templates import encode

PROBLEMS = problems(Countdown(), 12, held_out=True)
PROMPTS = [p.prompt for p in PROBLEMS]
HOW = {"temperature": 1.0, "max_tokens": 40, "rows": 64, "seed": 3}


@pytest.fixture(scope="module")
def policy():
    return load_policy(Model())


@pytest.fixture(scope="module")
def generator(policy):
    return HFGenerator(policy)


@pytest.fixture(scope="module")
def sampler(policy):
    """`count` rollouts of each prompt, as training samples them."""

    def sample(prompts, count, *, rows, **how):
        generator = HFGenerator(policy, max_num_seqs=rows)
        groups = sample_groups(generator, PROBLEMS[: len(prompts)], prompts, count, **how)
        return [group.rollouts for group in groups]

    return sample


def respond(generator, prompts, seeds, limits, rows=0):
    """A response to prompt i for each of `seeds[i]`, of at most `limits[i]` tokens,
    in lists like those of the seeds."""
    jobs = [Job(i, seed, limits[i]) for i, own in enumerate(seeds) for seed in own]
    rollouts = iter(generator.respond(prompts, jobs, 1.0, rows))
    return [[next(rollouts) for _ in own] for own in seeds]


def forward(policy, prompt, tokens, temperature):
    ids = policy.tokenizer(prompt, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = policy.model(torch.tensor([ids + list(tokens)])).logits[0, len(ids) - 1 : -1]
    return torch.log_softmax(logits / temperature, -1).numpy()


@pytest.mark.parametrize(
    ("rows", "temperature"),
    [(8, 0.6), (1000, 1.0), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((8, 1.0), (1000, 0.6)))],
)
def test_logprobs_and_entropies_are_those_of_the_whole_forward_pass(policy, sampler, temperature, rows):
    """Prompts of different lengths side by side, rows leaving on the way, and one row at a time without padding."""
    drawn = sampler(PROMPTS, 4, **{**HOW, "temperature": temperature, "rows": rows})
    assert len({len(r.tokens) for group in drawn for r in group}) > 1
    for prompt, group in zip(PROMPTS, drawn, strict=True):
        for rollout in group:
            logp = forward(policy, prompt, rollout.tokens, temperature)
            assert np.allclose(logp[np.arange(rollout.length), rollout.tokens], rollout.logprobs, atol=2e-4)
            assert rollout.entropy == pytest.approx(float(-(np.exp(logp) * logp).sum(-1).mean()), abs=1e-4)


def test_an_error_leaves_the_model_as_it_was(policy, generator, monkeypatch):
    def stop(model, *_):
        assert not model.training
        raise DiverError("stop")

    monkeypatch.setattr("diver.sample.hf.Decoding", stop)
    policy.model.train()
    with pytest.raises(DiverError, match="stop"):
        generator.respond([[1]], [Job(0, 0, 1)], 1.0)
    assert policy.model.training
    policy.model.eval()


def test_near_zero_temperature_is_greedy_generate(policy, sampler):
    drawn = sampler(PROMPTS, 1, **{**HOW, "temperature": 1e-4})
    for prompt, (rollout,) in zip(PROMPTS, drawn, strict=True):
        ids = policy.tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"]
        greedy = policy.model.generate(ids, max_new_tokens=40, do_sample=False, pad_token_id=0)
        assert rollout.tokens == greedy[0, ids.shape[1] :].tolist()


def test_first_tokens_follow_the_softmax(policy, sampler):
    drawn = sampler(PROMPTS[:1], 2000, **{**HOW, "max_tokens": 3, "rows": 2000})[0]
    second = [r.tokens[1] for r in drawn]  # after the opening delimiter comes a choice of numbers
    expected = np.exp(forward(policy, PROMPTS[0], drawn[0].tokens, 1.0)[1].astype(float)) * len(second)
    common = expected > 5
    seen = np.bincount(second, minlength=len(expected))
    f_obs, f_exp = (np.append(x[common][1:], x[common][0] + x[~common].sum()) for x in (seen, expected))
    assert chisquare(f_obs, f_exp * f_obs.sum() / f_exp.sum()).pvalue > 1e-4


def test_every_token_of_a_large_vocabulary_can_be_drawn():
    """The numbers that draw a token are as many as its probability says, after most of the mass too."""
    logits = torch.randn(152_064, generator=torch.Generator().manual_seed(0)) * 3
    logits[:4] += 20.0
    probabilities = torch.softmax(logits, -1)
    cumulative = probabilities.double().cumsum(0).numpy()
    last = np.arange(152_000, 152_064)  # numbers in the middle of what each of them covers
    numbers = (cumulative[last - 1] + cumulative[last]) / 2 / cumulative[-1]
    assert draw(probabilities.expand(len(last), -1), numbers).tolist() == last.tolist()


def test_draw_takes_no_index_of_probability_zero():
    probabilities = torch.tensor([[0.0, 0.25, 0.0, 0.75, 0.0]]).repeat(20_000, 1)
    numbers = np.linspace(2.0**-53, 1, 20_000)
    share = np.bincount(draw(probabilities, numbers).numpy(), minlength=5) / 20_000
    assert share[[0, 2, 4]].tolist() == [0, 0, 0] and share[1] == pytest.approx(0.25, abs=1e-4)


def test_recurrent_layers_are_refused_in_one_line():
    config = Lfm2Config(
        vocab_size=11, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, layer_types=["conv", "full_attention"],
    )  # fmt: skip
    with pytest.raises(DiverError, match="'lfm2': layers without a key-value cache"):
        check_layers(Lfm2ForCausalLM(config))


def test_same_seed_same_rollouts_and_other_seed_others(sampler):
    one, same, other = (sampler(PROMPTS, 4, **{**HOW, "seed": s}) for s in (3, 3, 4))
    texts = [[r.response for group in drawn for r in group] for drawn in (one, same, other)]
    assert texts[0] == texts[1] != texts[2]


def test_a_response_is_that_of_its_seed_whatever_its_companions(policy, generator):
    """Other prompts, other rows, another order: the same tokens, but for what rounding changes."""
    ids = encode(policy.tokenizer, PROMPTS)
    ids = [ids[i] for i in (0, 3, 6, 9)]
    seeds = [[stream_seed(5, i, j) for j in range(12)] for i in range(4)]
    whole = respond(generator, ids, seeds, [40] * 4)
    parts = [respond(generator, [ids[i]], [seeds[i][2:]], [40])[0] for i in range(4)]
    turned = respond(generator, ids[::-1], [own[::-1] for own in seeds[::-1]], [40] * 4)
    assert len({tuple(r.tokens) for group in whole for r in group}) > 20
    pairs = [(r, p) for group, part in zip(whole, parts, strict=True) for r, p in zip(group[2:], part, strict=True)]
    pairs += [
        (r, t) for group, same in zip(whole, turned[::-1], strict=True) for r, t in zip(group, same[::-1], strict=True)
    ]
    assert len(pairs) == 88 and sum(a.tokens == b.tokens for a, b in pairs) >= 86


@pytest.mark.parametrize("rows", [pytest.param(1, marks=pytest.mark.slow), 5, 17])
def test_a_response_is_that_of_its_seed_whatever_the_number_of_rows(policy, generator, rows):
    """Ended rows are given the next responses, prompts are run when their rows are free:
    the same tokens and log-probs."""
    ids = encode(policy.tokenizer, PROMPTS[:4])
    seeds = [[stream_seed(5, i, j) for j in range(5)] for i in range(4)]
    limits = [40, 3, 40, 1]
    whole, refilled = (respond(generator, ids, seeds, limits, n) for n in (0, rows))
    pairs = [(a, b) for one, other in zip(whole, refilled, strict=True) for a, b in zip(one, other, strict=True)]
    same = [(a, b) for a, b in pairs if a.tokens == b.tokens]
    assert len(pairs) == 20 and len(same) >= 19
    assert all(np.allclose(a.logprobs, b.logprobs, atol=2e-4) and a.truncated == b.truncated for a, b in same)


def test_prompts_of_one_pass_may_have_other_numbers_of_responses_and_other_limits(policy, generator):
    ids = encode(policy.tokenizer, PROMPTS[:3])
    drawn = respond(generator, ids, [[1, 2, 3], [4], [5, 6]], [2, 30, 1])
    assert [[r.length for r in group] for group in drawn][::2] == [[2, 2, 2], [1, 1]]
    assert drawn[1][0].length > 2 and all(r.truncated for r in [*drawn[0], *drawn[2]])


def test_rows_past_their_limit_stay_within_the_models_positions(policy):
    """A model whose positions are a table: one prompt fills it while the other has room."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=11, n_positions=12, n_embd=8, n_layer=1, n_head=2, bos_token_id=10, eos_token_id=10)
    model = GPT2LMHeadModel(config).eval()
    generator = HFGenerator(Policy(model, policy.tokenizer, None))
    generator.ends = [10]
    drawn = respond(generator, [[1] * 10, [2]], [list(range(3)), list(range(3, 20))], [2, 11])
    assert all(r.length <= 2 for r in drawn[0]) and max(r.length for r in drawn[1]) == 11


def test_ends_and_truncation(policy, sampler):
    end = policy.tokenizer.eos_token_id
    short, long = (sampler(PROMPTS, 2, **{**HOW, "max_tokens": n}) for n in (5, 90))
    assert all(r.truncated and r.length == 5 and end not in r.tokens for group in short for r in group)
    for rollout in (r for group in long for r in group if not r.truncated):
        assert rollout.tokens[-1] == end and end not in rollout.tokens[:-1]
        assert rollout.response == policy.tokenizer.decode(rollout.tokens[:-1])


def test_more_samples_than_rows_are_drawn_in_turns(sampler):
    drawn = sampler(PROMPTS[:2], 10, **{**HOW, "rows": 4})
    assert [len(group) for group in drawn] == [10, 10]
    assert len({r.response for r in drawn[0]}) > 3


def test_as_many_rows_as_fit_into_the_memory_of_a_gpu(policy):
    """A row of 100 positions: keys and values, 100 x 2 x 2 layers x 2 heads x 8 numbers of 2 bytes,
    and 32 bytes a word."""
    text = SimpleNamespace(
        num_hidden_layers=2, num_key_value_heads=2, num_attention_heads=4, hidden_size=32, vocab_size=50
    )
    model = SimpleNamespace(
        device=torch.device("cuda"),
        dtype=torch.bfloat16,
        config=SimpleNamespace(get_text_config=lambda: text),
        num_parameters=lambda: 10_000,
    )
    generator = HFGenerator(policy)
    generator.model, generator.precision = model, None
    row = 100 * 2 * 2 * 2 * 8 * 2 + 32 * 50
    for rows, wanted in ((37, 32), (32, 32), (9, 9), (5000, 1024)):
        generator._free = math.ceil(rows * row / 0.9)
        assert generator.rows_for(100) == wanted
    generator.precision = torch.bfloat16  # the autocast's copy of the weights lies beside them
    generator._free = math.ceil(32 * row / 0.9) + 2 * 10_000
    assert generator.rows_for(100) == 32
    generator._free -= 2 * row
    assert generator.rows_for(100) == 16
    generator._free = 2 * 10_000 + row // 2
    with pytest.raises(DiverError, match=r"a response of 100 tokens, .* lower sample.max_tokens"):
        generator.rows_for(100)

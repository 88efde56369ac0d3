"""Seeds that all differ, passes that are a function of what is wanted, and the distribution of what is drawn."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from diver.core.seeds import stream_seed
from diver.core.types import DiverError, Rollout
from diver.recipe.sections import Model
from diver.sample.base import SamplingParams, requests
from diver.sample.decoding import Job
from diver.sample.hf import HFGenerator, sample_groups
from diver.sample.policy import Policy, load_policy
from diver.tasks import countdown

PROBLEMS = countdown.problems(countdown.Countdown(), 4, held_out=True)
HOW = SamplingParams(1.0, 40)


@pytest.fixture(scope="module")
def policy():
    return load_policy(Model())


@pytest.fixture(scope="module")
def generator(policy):
    return HFGenerator(policy, "countdown", max_num_seqs=32)


def told(generation):
    """A generation in values that can be compared to the last bit."""
    r = generation.rollout
    return *generation.key, r.response, tuple(r.tokens), r.logprobs.tolist(), r.entropy, r.truncated, r.index


def asked(samples, problems=PROBLEMS, seed=0, benchmark="countdown"):
    return [r for p in problems for r in requests(seed, benchmark, p.id, p.prompt, samples)]


def test_no_two_requests_have_the_same_stream():
    """90,000 requests: two seeds, three benchmarks, some problems of the same name in each;
    and names that join alike."""
    all_of_them = [
        r
        for seed in (0, 1)
        for benchmark in ("aime24", "aime25", "aime2")
        for problem in [*map(str, range(14)), "4-1"]
        for r in requests(seed, benchmark, problem, "?", range(1000))
    ]
    assert len({r.seed for r in all_of_them}) == len(all_of_them) == 90_000
    assert all(0 <= r.seed < 2**63 for r in all_of_them)
    assert all_of_them[0].seed == stream_seed(0, "generate", "aime24", "0", 0)


def test_segments_are_full_and_prompts_of_similar_length_share_them(generator, policy, monkeypatch):
    """The first 64 samples of all problems come first, so that more samples later are further segments."""
    seen = []

    def respond(prompts, jobs, temperature, rows, ends):
        seen.append(([len(prompt) for prompt in prompts], Counter(job.prompt for job in jobs), rows))
        return [Rollout("", tokens=(1,)) for _ in jobs]

    monkeypatch.setattr(generator, "respond", respond)
    monkeypatch.setattr(generator, "max_num_seqs", 256)
    wanted = [r for i in range(16) for r in requests(0, "b", str(i), "1 " * (1 + 7 * i % 16), range(128))]
    assert len(list(generator.generate(wanted, HOW))) == 16 * 128
    lengths = [
        sorted(len(policy.tokenizer("1 " * n)["input_ids"]) for n in part) for part in (range(1, 9), range(9, 17))
    ]
    assert seen == [(part, Counter(dict.fromkeys(range(8), 64)), 256) for part in 2 * lengths]


def test_what_is_there_is_not_drawn_again_and_the_rest_is_the_same_to_the_last_bit(generator):
    """As after a kill: any part of the whole may have been stored."""
    wanted = asked(range(12))
    whole = {g.key: told(g) for g in generator.generate(wanted, HOW)}
    assert whole.keys() == {r.key for r in wanted} and len({g[2] for g in whole.values()}) > len(PROBLEMS)

    @settings(max_examples=settings().max_examples // 5)
    @given(st.sets(st.sampled_from([*whole])))
    def rest(have):
        got = list(generator.generate(wanted, HOW, have=have))
        assert sorted(g.key for g in got) == sorted(whole.keys() - have)
        assert all(told(g) == whole[g.key] for g in got)

    rest()


def test_a_generation_is_what_the_sampler_draws_by_the_seed_of_its_request(generator, policy):
    wanted = asked([0, 1, 9, 30], PROBLEMS[:2])
    got = {g.key: g.rollout for g in generator.generate(wanted, HOW)}
    assert got.keys() == {r.key for r in wanted}
    ids = [policy.tokenizer(p.prompt, add_special_tokens=False)["input_ids"] for p in PROBLEMS[:2]]
    jobs = [Job([p.id for p in PROBLEMS].index(r.problem_id), r.seed, 40) for r in wanted]
    drawn = generator.respond(ids, jobs, 1.0)
    for request, r in zip(wanted, drawn, strict=True):
        g = got[request.key]
        assert (g.response, g.tokens, g.truncated, g.index) == (r.response, r.tokens, r.truncated, request.sample)
        assert g.logprobs.sum() == pytest.approx(r.logprobs.sum(), abs=1e-3)


def test_training_samples_whole_groups_in_order(generator, policy):
    """Rollout j of problem i has the stream (seed, i, j), also where a problem comes twice in a batch."""
    problems = [*PROBLEMS[:2], PROBLEMS[1]]
    prompts = [p.prompt for p in problems]
    how = {name: value for name, value in HOW._asdict().items() if name != "stop"}  # training has no stop text
    groups = sample_groups(generator, problems, prompts, 20, **how, seed=7)
    assert [g.problem.id for g in groups] == [p.id for p in problems] and [g.prompt for g in groups] == prompts
    for i, group in enumerate(groups):
        ids = policy.tokenizer(prompts[i], add_special_tokens=False)["input_ids"]
        assert group.prompt_tokens == tuple(ids) and [r.index for r in group.rollouts] == [*range(20)]
        alone = generator.respond([ids], [Job(0, stream_seed(7, i, j), 40) for j in range(20)], 1.0)
        assert sum(r.tokens == a.tokens for r, a in zip(group.rollouts, alone, strict=True)) >= 19
    assert groups[1].responses != groups[2].responses


@pytest.fixture(scope="module")
def tiny():
    """A random Llama over five words, one of which ends, and its tokenizer."""
    words = ["<eos>", "a", "b", "c", "d"]
    inner = Tokenizer(models.WordLevel(dict(zip(words, range(5), strict=True)), unk_token="<eos>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>")
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=5, initializer_range=0.2, bos_token_id=None, eos_token_id=0, **sizes)
    return LlamaForCausalLM(config).eval(), tokenizer


def exact_distribution(model, prompt, longest, temperature):
    """The probability of every response, by the forward pass on each of its prefixes."""
    total, open_ = Counter(), {(): 1.0}
    for step in range(longest):
        following = {}
        for tokens, chance in open_.items():
            with torch.no_grad():
                logits = model(torch.tensor([prompt + list(tokens)])).logits[0, -1].double()
            for token, p in enumerate(torch.softmax(logits / temperature, -1).tolist()):
                if token == 0 or step == longest - 1:
                    total[tokens + (token,) * (token != 0)] += chance * p
                else:
                    following[(*tokens, token)] = chance * p
        open_ = following
    return {" ".join("?abcd"[t] for t in tokens): p for tokens, p in total.items()}


def test_responses_follow_the_distribution_of_the_model_as_those_of_generate_do(tiny):
    """Chi-square: ours and transformers' against all 85 responses of at most 3 tokens, and against each other."""
    model, tokenizer = tiny
    exact = exact_distribution(model, [1, 2, 3], 3, temperature=0.8)
    assert len(exact) == 85 and sum(exact.values()) == pytest.approx(1)
    assert max(exact.values()) < 0.5
    n = 64 * 64
    generator = HFGenerator(Policy(model, tokenizer, None), "tiny", max_num_seqs=300)
    got = generator.generate(requests(0, "tiny", "p", "a b c", range(n)), SamplingParams(0.8, 3))
    torch.manual_seed(1)
    how = {"do_sample": True, "temperature": 0.8, "top_k": 0, "top_p": 1.0, "max_new_tokens": 3, "pad_token_id": 0}
    theirs = model.generate(torch.tensor([[1, 2, 3]]), num_return_sequences=n, **how)[:, 3:]
    texts = tokenizer.batch_decode(theirs, skip_special_tokens=True)
    counts = [Counter(g.rollout.response for g in got), Counter(texts)]
    assert set(counts[0]) | set(counts[1]) <= set(exact)
    common = [r for r, p in exact.items() if p * n > 5]
    table = np.array([[c[r] for r in common] + [n - sum(c[r] for r in common)] for c in counts])
    expected = np.array([exact[r] * n for r in common])
    expected = np.append(expected, n - expected.sum())
    assert len(common) > 20
    for observed in table:
        assert chisquare(observed, expected).pvalue > 1e-3
    assert chi2_contingency(table).pvalue > 1e-3


def test_lazily_a_segment_at_a_time(generator, monkeypatch):
    """What has been drawn can be written down before the next segment is begun;
    a segment that is all there is left out."""
    drawn, respond = [], generator.respond
    monkeypatch.setattr(generator, "respond", lambda *a: drawn.append(1) or respond(*a))
    wanted = asked(range(16))
    monkeypatch.setattr(generator, "max_num_seqs", 16)
    coming = generator.generate(wanted, HOW)
    for i in range(1, 65):
        next(coming)
        assert len(drawn) == -(-i // 32)
    first = {g.key for g in islice(generator.generate(wanted, HOW), 32)}
    drawn.clear()
    assert len(list(generator.generate(wanted, HOW, have=first))) == 32 and len(drawn) == 1


def test_truncated_by_max_tokens_and_by_the_context(generator, policy):
    (short,) = generator.generate(asked([0], PROBLEMS[:1]), SamplingParams(1.0, 2))
    assert short.rollout.truncated and short.rollout.length == 2
    length = len(policy.tokenizer(PROBLEMS[0].prompt)["input_ids"])
    narrow = HFGenerator(policy, "narrow")
    narrow.context = length + 3
    assert next(narrow.generate(asked([0], PROBLEMS[:1]), HOW)).rollout.length == 3
    narrow.context = length
    with pytest.raises(DiverError, match=rf"^problem '{PROBLEMS[0].id}': the prompt has {length} tokens"):
        list(narrow.generate(asked([0], PROBLEMS[:1]), HOW))


def test_messages_go_through_the_chat_template(generator, policy, monkeypatch):
    monkeypatch.setattr(policy.tokenizer, "chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}")
    (text,) = generator.generate(asked([3], PROBLEMS[:1]), HOW)
    messages = [{"role": "user", "content": PROBLEMS[0].prompt}]
    (chat,) = generator.generate(requests(0, "countdown", PROBLEMS[0].id, messages, [3]), HOW)
    assert told(chat) == told(text)
    monkeypatch.setattr(policy.tokenizer, "chat_template", None)
    with pytest.raises(DiverError, match="chat template"):
        list(generator.generate(requests(0, "countdown", "p", messages, [3]), HOW))

"""Trajectories by the bundled policy: what the environment says is context, and only the policy's tokens are scored."""

import copy
import threading
from dataclasses import replace
from itertools import pairwise

import environments
import numpy as np
import pytest
import torch

from diver.core.environment import Step, at_once, checked_step
from diver.core.files import MemoryLog
from diver.core.turns import ENVIRONMENT, POLICY, Action, Turn
from diver.core.types import DiverError, Grade, Group, Problem, Rollout, sampling_metrics
from diver.evaluate.evaluate import Task, evaluate
from diver.grading import get_grader, verify
from diver.recipe.sections import Model
from diver.sample.base import Job, SamplingParams, requests
from diver.sample.hf import HFGenerator, sample_groups
from diver.sample.policy import load_policy
from diver.sample.trajectories import CHARACTERS, Trajectory, playing
from diver.tasks.templates import between_turns, render


@pytest.fixture(scope="module")
def generator():
    return HFGenerator(load_policy(Model(path="countdown", threads=1)))


def problems_of(kind, count=2):
    return [replace(problem, verifier=f"environments:{kind}") for problem in environments.problems()[:count]]


def sampled(generator, kind, count=2, size=3, max_tokens=60, temperature=1.0):
    problems = problems_of(kind, count)
    player = playing(generator, problems, "plain")
    texts = [render(problem, "plain") for problem in problems]
    return sample_groups(player, problems, texts, size, temperature=temperature, max_tokens=max_tokens, seed=7)


def words(generator, text):
    return generator.tokenizer(text, add_special_tokens=False)["input_ids"]


def test_turns_outcome_and_context_by_hand(generator):
    for group in sampled(generator, "Echo", max_tokens=200):
        for rollout in group.rollouts:
            if rollout.truncated:
                continue
            assert [turn.role for turn in rollout.turns] == ["assistant", "environment"] * 3
            said = rollout.turns[1::2]
            assert [turn.text for turn in said] == ["Use 1", "Use 2", "Use 3"]
            assert [turn.state for turn in said] == ["state 1", "state 2", "state 3"]
            assert [turn.reward for turn in said] == [0.0, 0.0, 1.0]
            assert [turn.tokens for turn in said] == [words(generator, "Use 1"), words(generator, "Use 2"), []]
            assert (rollout.grade, rollout.reward.outcome) == (Grade.CORRECT, 1.0)
            assert [action.name for action in rollout.actions] == ["say"] * 3
            assert all(turn.tokens[-1] in generator.ends for turn in rollout.turns[::2])
    assert not all(rollout.truncated for rollout in group.rollouts)


def test_log_probs_are_those_of_one_pass_over_prompt_and_both_sides(generator):
    for group in sampled(generator, "Echo"):
        for rollout in group.rollouts:
            ids, mask = rollout.sequence
            prompt = list(group.prompt_tokens)
            with torch.no_grad():
                logits = generator.model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1]
            logp = torch.log_softmax(logits, -1)
            each = logp[torch.arange(len(ids)), torch.from_numpy(ids)].numpy()
            np.testing.assert_allclose(rollout.logprobs, each[mask], atol=2e-4)
            entropy = -(logp.exp() * logp).sum(-1).numpy()
            assert rollout.entropy == pytest.approx(entropy[mask].mean(), abs=2e-4)
            assert rollout.length == mask.sum() < len(ids)


def test_limits_on_turns_and_tokens(generator):
    (group,) = sampled(generator, "Endless", count=1, max_tokens=1000)
    for rollout in group.rollouts:
        assert len(rollout.turns) == 8 or rollout.length + len(group.prompt_tokens) > 60  # the context of the policy
        assert rollout.truncated
        for turn in rollout.turns[1::2]:  # cut to two tokens; the mark of an end is text here
            assert len(turn.tokens) == 2 and not set(turn.tokens) & set(generator.ends)
    assert {r.grade for r in group.rollouts if len(r.turns) == 8} == {Grade.CORRECT}  # it paid 4 x 0.25
    (group,) = sampled(generator, "Endless", count=1, max_tokens=5)
    for rollout in group.rollouts:
        assert rollout.truncated and rollout.length <= 5 and rollout.grade is Grade.TRUNCATED


def test_a_failing_environment_ends_its_trajectory_alone(generator):
    groups = sampled(generator, "Failing", count=5, max_tokens=200)
    grades = [{r.grade for r in group.rollouts if not r.truncated} for group in groups]
    assert grades[2] == {Grade.ERROR} and grades[4] == {Grade.TIMEOUT}
    assert [grades[i] for i in (0, 1, 3)] == [{Grade.CORRECT}] * 3
    for group in (groups[2], groups[4]):
        for rollout in group.rollouts:
            if not rollout.truncated:
                assert len(rollout.turns) == 3 and rollout.reward.outcome == 0.0
                assert all(turn.reward is None for turn in rollout.turns)  # the first turn had been paid .5


def test_an_environment_that_leaves_by_sys_exit_has_failed(generator):
    """It was said to be late, since its thread ended without an answer."""
    (group,) = sampled(generator, "Leaves", count=1, max_tokens=200)
    assert {r.grade for r in group.rollouts if not r.truncated} == {Grade.ERROR}


def test_the_mean_number_of_turns_counts_those_of_the_policy():
    """Three and one turns of the policy have the mean 2; a response that is one turn logs none."""
    long = Rollout.of_turns([Turn(POLICY, "a"), Turn(ENVIRONMENT, "b")] * 2 + [Turn(POLICY, "c")], num_tokens=3)
    short = Rollout.of_turns([Turn(POLICY, "a"), Turn(ENVIRONMENT, "b")], num_tokens=1)
    problem = Problem("p", "", "")
    assert sampling_metrics([Group(problem, (long, short))])["response/turns_mean"] == 2.0
    assert "response/turns_mean" not in sampling_metrics([Group(problem, (Rollout("a", num_tokens=1),))])


def begun(job, kind="Echo"):
    (problem,) = problems_of(kind, 1)
    return Trajectory(job, problem, get_grader(problem.verifier), [1, 2])


def test_an_observation_is_bounded_where_it_is_kept():
    """10 million characters of a tool are neither tokenised nor written into the rollouts."""
    trajectory = begun(Job(0, 7, 20, "p1"))
    trajectory.take(Rollout("x", [5, 1], np.zeros(2), entropy=0.0))
    trajectory.hear(Step("x" * 10_000_000, reward=0.0), lambda text, most: [9] * len(text), 1e9)
    assert [*map(len, (trajectory.turns[1].text, trajectory.turns[1].tokens))] == [CHARACTERS * 512] * 2


def test_what_the_context_has_no_room_for_is_not_run_through_the_model():
    """2 tokens of the prompt, 2 of the policy and 3 of the environment are 7; the policy needs one more."""
    for room, kept in ((8, [9] * 3), (7, [])):
        trajectory = begun(Job(0, 7, 20, "p1"))
        trajectory.take(Rollout("x", [5, 1], np.zeros(2), entropy=0.0))
        trajectory.hear(Step("a b c"), lambda text, most: [9] * 3, room)
        assert (trajectory.turns[1].tokens, trajectory.truncated) == (kept, not kept)
        assert trajectory.turns[1].text == "a b c" and len(trajectory.context) == 4 + len(kept)


def test_each_turn_has_a_stream_of_its_own(generator):
    job = Job(0, 7, 20, "p1")
    trajectory = begun(job)
    first = trajectory.next_job(3, 96)
    trajectory.take(Rollout("x", [5, 1], np.zeros(2), entropy=0.0))
    second = trajectory.next_job(4, 96)
    assert (first.prompt, first.limit) == (3, 20) and (second.prompt, second.limit) == (4, 18)
    assert len({job.seed, first.seed, second.seed}) == 3
    assert trajectory.next_job(5, 10).limit == 6  # what the context leaves: it has four tokens


def test_an_evaluation_resumes_within_and_gives_the_same(generator):
    problems = problems_of("Echo", 3)
    player = playing(generator, problems, "plain")
    wanted = [r for p in problems for r in requests(0, "b", p.id, render(p, "plain"), range(3))]
    params = SamplingParams(1.0, 60)
    full = {g.key: g.rollout for g in player.generate(wanted, params)}
    have = {key for i, key in enumerate(full) if i % 2}
    rest = {g.key: g.rollout for g in player.generate(wanted, params, have)}
    assert rest.keys() == full.keys() - have
    assert all(rest[key].turns == full[key].turns for key in rest)


def test_a_stored_trajectory_belongs_to_all_columns_of_its_problem(generator):
    (problem,), stored = problems_of("Echo", 1), MemoryLog()
    for level in (1, 1, 2):
        problems = [replace(problem, meta={"level": level})]
        task = Task(name="b", problems=problems, template="plain", temperature=1.0, max_tokens=20, samples=2, ks=(1,))
        evaluate(task, lambda: generator, stored, progress=False)
    assert len([*stored.rows()]) == 4


def test_calls_are_made_at_once_and_bounded():
    barrier = threading.Barrier(3)  # nobody passes it alone
    assert sorted(at_once([barrier.wait] * 3, [60.0] * 3)) == [0, 1, 2]
    late, bad = at_once([threading.Event().wait, lambda: 1 / 0], [0.05, 60.0])
    assert isinstance(late, TimeoutError) and isinstance(bad, ZeroDivisionError)


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_what_stands_between_turns_by_hand(generator):
    tokenizer = copy.deepcopy(generator.tokenizer)
    tokenizer.chat_template = CHATML
    assert between_turns("chat", tokenizer, [1]) == (
        "<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n",
    )  # fmt: skip
    tokenizer.decode = lambda ids: {1: "<eos>", 5: "<|im_end|>"}[ids[0]]
    assert between_turns("chat", tokenizer, [1, 5])[0] == "\n<|im_start|>user\n"  # the policy has written its end
    assert between_turns("plain", None, []) == ("\n\n", "")


ONLY_THE_LAST = (
    "{% for m in messages %}{% if loop.last %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize("word", ["REPLY", "OBSERVATION", "QUESTION"])
def test_words_of_a_template_are_not_taken_for_its_messages(generator, word):
    tokenizer = copy.deepcopy(generator.tokenizer)
    tokenizer.chat_template = f"<|im_start|>system\n{word} briefly.<|im_end|>\n{CHATML}"
    assert between_turns("chat", tokenizer, [1]) == (
        "<|im_end|>\n<|im_start|>user\n", "<|im_end|>\n<|im_start|>assistant\n",
    )  # fmt: skip


@pytest.mark.parametrize("template", [ONLY_THE_LAST, CHATML.replace("m.content", "m.content + m.content"), "fixed"])
def test_a_template_whose_messages_are_not_found_is_refused_before_a_response(generator, template):
    changed = copy.copy(generator)
    changed.tokenizer = copy.deepcopy(generator.tokenizer)
    changed.tokenizer.chat_template = template
    with pytest.raises(DiverError, match="^the template 'chat': its chat template does not render messages in turn"):
        playing(changed, problems_of("Echo"), "chat")


def test_a_turn_has_the_end_mark_of_the_template_once(generator):
    """} ends a turn of this template. A turn that the policy ended by it has no second one. A turn that the policy
    ended by another token has one, as every turn of the template has."""
    changed = copy.copy(generator)
    changed.tokenizer = copy.deepcopy(generator.tokenizer)
    changed.tokenizer.chat_template = "{% for m in messages %}{{ m.content }}} = {% endfor %}"
    mark, other, end = (words(generator, word)[0] for word in ("}", "=", "\\times"))
    problems = problems_of("Echo", 4)
    player = playing(changed, problems, "chat")
    options = {"temperature": 1.0, "max_tokens": 60, "stop_token_ids": [mark, end]}
    groups = sample_groups(player, problems, [problem.prompt for problem in problems], 10, seed=7, **options)
    seen = set()
    for rollout in (rollout for group in groups for rollout in group.rollouts):
        for turn, answer in pairwise(rollout.turns):
            if turn.by_policy and answer.tokens:
                seen.add(turn.tokens[-1])
                begin = [other] if turn.tokens[-1] == mark else [mark, other]
                assert list(answer.tokens[: len(begin)]) == begin
                assert list(answer.tokens[-2:]) == [mark, other]
    assert seen == {mark, end}


def test_an_answer_that_is_none_is_an_error_of_the_environment():
    assert checked_step(("x", 1, True)) == Step("x", True, 1.0)
    step = checked_step(Step("x", actions=["left", ("go", {"to": "b"})]))
    assert step.actions == (Action("left"), Action("go", '{"to": "b"}'))
    for wrong in ("x", ("x", False, float("nan")), (3,), Step("x", actions=[5]), ("x", False, 1.0, None, None, 6)):
        with pytest.raises((TypeError, ValueError)):
            checked_step(wrong)


def test_refusals_in_one_line(generator):
    mixed = [*problems_of("Echo", 1), replace(environments.problems()[1], verifier="math")]
    with pytest.raises(DiverError, match=r"^environment environments:Echo: other problems have verifier math; "):
        playing(generator, mixed, "plain")
    with pytest.raises(DiverError, match="trajectories are sampled with --generator transformers alone"):
        playing(object(), problems_of("Echo"), "plain")
    assert playing(generator, mixed[1:], "plain") is generator
    with pytest.raises(DiverError, match="answers in turns"):
        verify([Group(problems_of("Echo")[0], (Rollout("7"),))])
    (problem,) = problems_of("Random", 1)
    with pytest.raises(DiverError, match=r"problem 'p1': reset must return the same text at each call"):
        [render(problem) for _ in range(2)]
    (problem,) = problems_of("NeverBegins", 1)
    with pytest.raises(DiverError, match=r"problem 'p1': TimeoutError: no answer within 0.05 s"):
        render(problem)
    (problem,) = problems_of("LeavesAtOnce", 1)
    with pytest.raises(DiverError, match=r"problem 'p1': RuntimeError: SystemExit: 0 \(.*environments.py:\d+\)"):
        render(problem)
    (problem,) = problems_of("WithoutSteps", 1)
    with pytest.raises(DiverError, match=r"problem 'p1': TypeError: .*abstract method '?step"):
        render(problem)

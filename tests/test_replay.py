"""The bank of verified solutions: what enters, in which order it is replayed, and with what advantages,
all worked out by hand."""

import dataclasses
import json
import math

import numpy as np
import pytest
from diver_command import diver as command
from report_page import curve

import diver
from diver.core.formulas import formulas
from diver.core.settings import settings
from diver.core.turns import POLICY, Action, Turn
from diver.core.types import DiverError, Grade, Group, Problem, Progress, Reward, Rollout
from diver.grading import with_keys
from diver.integrations.engines import refusals
from diver.methods import check_needs, check_replayed, method_named
from diver.methods.grpo import ClipHigher
from diver.methods.replay import KEY, Replay, admitted, replay_metrics, solution_of
from diver.train.checkpoint import read_state, write_state

ON = Replay(alpha=0.1)


def rollout(tokens, solution, grade=Grade.CORRECT, truncated=False):
    outcome = Reward(float(grade is Grade.CORRECT))
    return Rollout("", tokens=tokens, solution=solution, grade=grade, truncated=truncated, key="k", reward=outcome)


def group(name, *rollouts):
    return Group(Problem(name, "", ""), rollouts, prompt_tokens=(7, 8))


def bank_of(*steps, replay=ON):
    """The state after the groups of each step, from step 0."""
    state = {}
    for step, groups in enumerate(steps):
        for sampled in groups:
            replay.remember(sampled, state, step)
    return state


def solutions(state):
    return {name: list(entry["responses"]) for name, entry in state[KEY].items()}


def test_only_correct_and_finished_responses_enter_one_for_each_solution():
    state = bank_of(
        [
            group(
                "p",
                rollout([1, 2], "a"),
                rollout([3], "a"),
                rollout([4], "b", truncated=True),
                rollout([5], None, Grade.WRONG),
                rollout([6], "c"),
                rollout([], "d"),
            ),
            group("q", rollout([1], None, Grade.NO_ANSWER), rollout([2], None, Grade.TIMEOUT)),
        ],
        [group("p", rollout([9], "c"))],
    )
    assert solutions(state) == {"p": ["a", "c"]}
    kept = state[KEY]["p"]["responses"]
    assert kept["a"]["tokens"].tolist() == [1, 2] and kept["c"]["tokens"].tolist() == [6]  # the first of each
    assert [(r["seen"], r["found"]) for r in kept.values()] == [(2, 0), (2, 0)]


def test_the_bank_keeps_the_first_solutions_or_the_latest_responses():
    steps = [[group("p", rollout([1], "a"), rollout([2], "b"))], [group("p", rollout([3], "b"), rollout([4], "c"))]]
    assert solutions(bank_of(*steps, replay=Replay(alpha=1.0, capacity=2))) == {"p": ["a", "b"]}
    latest = bank_of(*steps, replay=Replay(alpha=1.0, capacity=3, keep="latest"))
    assert [r["tokens"].tolist() for r in latest[KEY]["p"]["responses"].values()] == [[2], [3], [4]]


def test_problems_take_turns_and_a_new_one_waits_behind_the_others():
    state = bank_of([group(name, rollout([1], "s")) for name in "abc"])

    def turn(problems, step):
        return [g.problem.id for g in ON.replayed(state, problems, step)]

    assert turn(2, 0) == ["a", "b"]
    ON.remember(group("d", rollout([1], "s")), state, 1)
    assert turn(2, 1) == ["c", "a"]
    assert turn(3, 2) == ["b", "d", "c"]
    assert sorted(turn(9, 3)) == ["a", "b", "c", "d"]  # none twice in a step
    assert len(Replay(alpha=0.1, problems=1).replayed(state, 9, 4)) == 1


def test_advantages_are_alpha_or_follow_the_frequency_with_the_mean_alpha():
    state = bank_of([group("p", rollout([1, 2], "a"), rollout([3], "b"), rollout([4], "a"), rollout([5], "a"))])
    (uniform,) = Replay(alpha=0.3).replayed(state, 1, 4)
    assert uniform.advantages.tolist() == pytest.approx([0.3, 0.3])
    assert uniform.prompt_tokens == (7, 8) and [r.tokens for r in uniform.rollouts] == [[1, 2], [3]]
    assert [r.age for r in uniform.rollouts] == [4, 4]
    (frequency,) = Replay(alpha=0.3, weights="frequency").replayed(state, 1, 4)
    # "a" was sampled 3 times of 4: 2 solutions x 0.3 x 3/4 and 2 x 0.3 x 1/4
    assert frequency.advantages.tolist() == pytest.approx([0.45, 0.15])


def test_old_responses_are_dropped_when_their_turn_comes():
    state = bank_of([group("p", rollout([1], "a")), group("q", rollout([1], "a"))], [group("p", rollout([2], "b"))])
    young = Replay(alpha=0.1, max_age=2)
    assert [len(g) for g in young.replayed(state, 2, 2)] == [2, 1]
    assert [(g.problem.id, len(g)) for g in young.replayed(state, 2, 3)] == [("p", 1)]
    assert solutions(state) == {"p": ["b"]}


def drifting(*logprobs):
    """A group of two correct responses of two tokens, a and b, with these log-probs."""
    pairs = zip("ab", logprobs, strict=True)
    return group("p", *(rollout([1, 2], name).replace(logprobs=np.array(lp, np.float32)) for name, lp in pairs))


@pytest.mark.parametrize(
    ("limit", "expected"),
    [(0.0, [0.3, 0.3]), (0.125, [0.3, 0.3]), (0.1, [0.0, 0.6]), (0.01, [0.0, 0.0])],
)
def test_responses_that_have_drifted_leave_their_weight_to_the_others(tmp_path, limit, expected):
    """The policy gives the tokens of a other log-probs by +.5 and 0: the mean square is .125; those of b by -.25 and
    .25: .0625, though their mean is 0. Both stay in the bank, also after a checkpoint."""
    replay = Replay(alpha=0.3, max_drift=limit)
    state = bank_of([drifting([-1.0, -2.0], [-0.5, -0.5])], replay=replay)
    write_state(tmp_path, state)
    for bank in (state, read_state(tmp_path)):
        found = replay.replayed(bank, 1, 4)
        if limit:
            assert [r.logprobs.tolist() for r in found[0].rollouts] == [[-1, -2], [-0.5, -0.5]]
        now = [drifting([-0.5, -2.0], [-0.75, -0.25]).with_each(advantage=found[0].advantages.tolist())]
        assert admitted(found, now, limit)[0].advantages.tolist() == pytest.approx(expected)
        assert solutions(bank) == {"p": ["a", "b"]}
        metrics = replay_metrics(admitted(found, now, limit), 0.0, 0.0)
        assert metrics["replay/admitted"] == sum(a > 0 for a in expected) / 2


def test_the_weight_of_a_problem_that_has_drifted_goes_to_the_others():
    """Means of .3, .3 and .2 over the groups are .8 together. The responses left have .3 / 2 + .2 = .35 of it."""
    far, near = np.array([-1.0, -1.0]), np.array([0.0, 0.0])
    sizes = [(far, far, 0.3), (far, near, 0.3), (near, near, 0.2)]
    now = [drifting(near, near).with_each(advantage=[advantage, advantage]) for _, _, advantage in sizes]
    weighed = admitted([drifting(a, b) for a, b, _ in sizes], now, 0.5)
    expected = [[0, 0], [0, 0.3 * 0.8 / 0.35], [0.2 * 0.8 / 0.35] * 2]
    assert [g.advantages.tolist() for g in weighed] == [pytest.approx(of) for of in expected]


def test_with_a_limit_of_drift_the_newest_response_of_a_solution_counts():
    found = [drifting([-1.0, -2.0], [-0.5, -0.5])], [group("p", drifting([-0.1, -0.2], [-9.0, -9.0]).rollouts[0])]
    state = bank_of(*found, replay=Replay(alpha=0.3, max_drift=0.1))
    assert solutions(state) == {"p": ["a", "b"]}
    responses = state[KEY]["p"]["responses"]
    assert [(r["seen"], r["found"]) for r in responses.values()] == [(2, 1), (1, 0)]
    (replayed,) = Replay(alpha=0.3, max_drift=0.1).replayed(state, 1, 2)
    assert replayed.rollouts[0].logprobs.tolist() == pytest.approx([-0.1, -0.2])


def test_the_limit_of_drift_needs_log_probs_and_a_replay():
    method = method_named("max-rl", replay={"alpha": 0.1, "max_drift": 1e-3})
    assert {"logprobs", "replay"} <= method.needs and "logprobs" not in method_named("verified-replay").needs
    assert {"built-in", "DiverTrainer", "verl"}.isdisjoint(refusals(method))
    assert "adds replayed rollouts to each update" in refusals(method)["TRL"]
    with pytest.raises(DiverError, match="max_drift would have no effect: without alpha nothing is replayed"):
        method_named("max-rl", replay={"max_drift": 1e-3})


def test_beyond_its_bound_the_bank_loses_the_responses_that_were_found_first():
    """A problem takes 4 bytes for each of its 2 prompt tokens, and a response 4 bytes a token."""
    steps = [
        [group("p", rollout([1] * 10, "a"))],
        [group("q", rollout([2] * 10, "a")), group("p", rollout([3] * 10, "b"))],
    ]
    state = bank_of(*steps)
    assert ON.metrics(state) == {"replay/bank_problems": 2, "replay/bank_responses": 3, "replay/bank_mb": 136e-6}
    Replay(alpha=0.1, bank_gb=100e-9).replayed(state, 0, 2)
    assert solutions(state) == {"p": ["b"], "q": ["a"]}  # 96 bytes
    Replay(alpha=0.1, bank_gb=50e-9).replayed(state, 0, 2)
    assert solutions(state) == {"q": ["a"]}


def trajectory(said, *actions, tokens=([1, 0], [0, 9], [4])):
    """Two turns of the policy with these actions, and what the environment says between them."""
    first, observation, last = tokens
    turns = (
        Turn(POLICY, said, tuple(map(Action, actions)), tokens=first),
        Turn("tool", "3 * 4 = 12", tokens=observation),
        Turn(POLICY, "done", tokens=last),
    )
    return Rollout.of_turns(turns, grade=Grade.CORRECT, reward=Reward(1.0))


def test_a_trajectory_comes_back_with_its_mask(tmp_path):
    """Id 0 on both sides, so that a sign would not tell them apart. The bank has 2 tokens of the prompt, and 5 and 2 of
    two responses, 4 bytes each."""
    state = bank_of([group("p", trajectory("a", "go").replace(solution="go"))], [group("p", rollout([5, 0], "b"))])
    assert ON.metrics(state)["replay/bank_mb"] == 36e-6
    write_state(tmp_path, state)
    for kept in (state, read_state(tmp_path)):
        (replayed,) = ON.replayed(kept, 1, 2)
        played, plain = replayed.rollouts
        assert [part.tolist() for part in played.sequence] == [[1, 0, 0, 9, 4], [True, True, False, False, True]]
        assert [part.tolist() for part in plain.sequence] == [[5, 0], [True, True]]
        assert [(r.length, len(r.logprobs), [*r.tokens]) for r in replayed.rollouts] == [
            (3, 3, [1, 0, 4]),
            (2, 2, [5, 0]),
        ]
        assert replayed.advantages.tolist() == pytest.approx([0.1, 0.1]) and played.age == 2
    Replay(alpha=0.1, bank_gb=30e-9).replayed(state, 0, 2)  # the trajectory was found first
    assert ON.metrics(state)["replay/bank_mb"] == 16e-6 and solutions(state) == {"p": ["b"]}


def test_the_solution_of_a_trajectory_is_its_sequence_of_actions():
    """Two of five do the same in other words. Without actions, what the policy writes decides, and not the
    environment's formula."""
    problem = Problem("p", "Use 1 and 4 to make 7.", "", verifier="environments:Echo")
    rollouts = (
        trajectory("first", "left", "right", tokens=([1], [2], [3])),
        trajectory("second", "left", "right", tokens=([4], [5], [6])),
        trajectory("first", "right", "left", tokens=([7], [8], [9])),
        trajectory("1 + 6 = 7", tokens=([10], [11], [12])),
        trajectory("4 + 3 = 7", tokens=([13], [14], [15])),
    )
    (keyed,) = with_keys([Group(problem, rollouts, prompt_tokens=(7, 8))])
    assert [rollout.solution is None for rollout in keyed.rollouts] == [False, False, False, True, True]
    state = bank_of([keyed])
    kept = state[KEY]["p"]["responses"].values()
    assert [(r["tokens"].tolist(), r["seen"]) for r in kept] == [
        ([1, -3, 3], 2),
        ([7, -9, 9], 1),
        ([10, -12, 12], 1),
        ([13, -15, 15], 1),
    ]


@pytest.mark.slow
def test_40_000_problems_with_responses_of_8_192_tokens_stay_within_the_bound(tmp_path):
    """1.3 GB of responses in a bank of 0.5 GB, through a checkpoint."""
    replay, state = Replay(alpha=0.1, bank_gb=0.5), {}
    tokens = [5] * 8192
    for step in range(40):
        for i in range(1000):
            replay.remember(group(f"{step}-{i}", rollout(tokens, "a")), state, step)
        assert len(replay.replayed(state, 128, step)) == 128
    size = replay.metrics(state)
    assert 0.49e3 < size["replay/bank_mb"] <= 0.5e3 and size["replay/bank_responses"] == size["replay/bank_problems"]
    assert min(r["found"] for entry in state[KEY].values() for r in entry["responses"].values()) >= 24
    write_state(tmp_path, state)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 0.51e9
    assert replay.metrics(read_state(tmp_path)) == size


def test_the_bank_survives_a_checkpoint_with_its_order(tmp_path):
    state = bank_of([group(name, rollout([1, 2], "s"), rollout([3], "t")) for name in "cab"]) | {"counts": {"x": 1}}
    ON.replayed(state, 1, 0)
    write_state(tmp_path, state)
    restored = read_state(tmp_path)
    assert list(restored[KEY]) == ["a", "b", "c"] and restored["counts"] == {"x": 1}
    for step in range(3):
        ours, theirs = (ON.replayed(s, 2, step) for s in (state, restored))
        assert [(g.problem.id, g.prompt_tokens, [r.tokens for r in g.rollouts]) for g in ours] == [
            (g.problem.id, g.prompt_tokens, [r.tokens for r in g.rollouts]) for g in theirs
        ]


def test_one_id_with_two_prompts_is_two_problems():
    state, other = {}, Group(Problem("p", "", ""), (rollout([3], "a"),), prompt_tokens=(9, 9, 9))
    for sampled in (group("p", rollout([1], "a")), other, other):
        ON.remember(sampled, state, 0)
    found = {g.prompt_tokens: [r.tokens for r in g.rollouts] for g in ON.replayed(state, 9, 1)}
    assert found == {(7, 8): [[1]], (9, 9, 9): [[3]]}


def test_a_bank_whose_file_is_cut_is_refused(tmp_path):
    write_state(tmp_path, bank_of([group("p", rollout([1] * 100, "a"))]))
    path = tmp_path / "method.bin"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DiverError, match=r"method.bin: has 50 values where method.json has 102"):
        read_state(tmp_path)


def written(text, solution=None):
    return solution_of(Rollout(text, key="12", solution=solution))


def test_without_canonical_solutions_the_formulas_decide():
    plain = written("3 * 4 = 12, so \\boxed{12}")
    assert plain == written("We get   3*4=12.\n\\boxed{12}") != written("6 + 6 = 12, so \\boxed{12}")
    assert written("$a = 3$ and $b=4$") == written("First \\(b = 4\\), then \\(a=3\\).") != written("$a=3$")
    assert written("any text", "the verifier's") == "the verifier's"
    assert formulas("3 * 4 = 12") == frozenset()  # ED counts formulas between delimiters only


def test_what_stands_after_the_answer_is_no_part_of_the_solution():
    text = "3 * 4 = 12, \\boxed{12}"
    tail = Rollout(text + " and 1 + 1 = 2", key="12", answer_end=len(text))
    assert solution_of(tail) == solution_of(Rollout(text, key="12", answer_end=len(text)))


def test_the_verifier_names_solutions_only_where_they_are_canonical():
    rollouts = (Rollout(r"\boxed{3*4}", grade=Grade.CORRECT), Rollout(r"\boxed{5}", grade=Grade.WRONG))
    meta = {"numbers": [3, 4], "target": 12}
    (countdown,) = with_keys([Group(Problem("c", "", "12", verifier="countdown", meta=meta), rollouts)])
    assert countdown.rollouts[0].solution == countdown.rollouts[0].key and countdown.rollouts[1].solution is None
    (math,) = with_keys([Group(Problem("m", "", "12"), (Rollout(r"\boxed{12}", grade=Grade.CORRECT),))])
    assert math.rollouts[0].solution is None and math.rollouts[0].key == "12"


def test_any_method_replays_and_its_sampled_groups_stay_as_they_are():
    sampled = [group("p", rollout([1], "a"), rollout([2], None, Grade.WRONG))]
    for name in ("clip-higher", "max-rl", "pass-at-k", "diver-mix"):
        settings = {"k": 1} if name == "pass-at-k" else {}
        plain, method = method_named(name, **settings), method_named(name, replay={"alpha": 0.2}, **settings)
        state = {}
        ours = method.apply(sampled, Progress(3, 9), state=state)
        assert ours[0].advantages.tolist() == plain.apply(sampled, Progress(3, 9), state={})[0].advantages.tolist()
        (replayed,) = method.replayed(state, 32, Progress(5, 9))
        assert replayed.advantages.tolist() == [0.2] and replayed.rollouts[0].age == 2
        assert plain.replayed({}, 32, Progress(5, 9)) == [] and "replay" not in plain.needs
    verified, base = (
        dataclasses.asdict(method_named("verified-replay")),
        dataclasses.asdict(method_named("clip-higher")),
    )
    assert {key for key in base if verified[key] != base[key]} == {"name", "replay"} and verified["replay"][
        "alpha"
    ] == 0.1


def test_a_loss_that_compares_sampled_tokens_is_refused():
    for name in ("clip-cov", "kl-cov", "high-entropy", "entropy-advantage", "siren"):
        with pytest.raises(DiverError, match=r"method.replay: the loss .* compares the tokens"):
            method_named(name, replay={"alpha": 0.1})


def test_what_sees_rewards_only_refuses_in_one_line():
    with pytest.raises(DiverError, match=r"adds replayed rollouts .* diver.advantages does not provide"):
        diver.advantages(["a", "b"], [1, 0], [0, 0], "verified-replay")


@settings
class Own(ClipHigher):
    """A method of one's own that replays what it likes."""

    name: str = "own"

    def replayed(self, state, problems, progress):
        return [group("p", rollout([1], "a"))]


def test_a_replay_of_ones_own_is_needed_from_the_engine():
    """Without that, an engine that knows nothing of it would leave it out without a word."""
    assert "replay" in Own().needs and "replay" not in ClipHigher().needs
    with pytest.raises(DiverError, match="which TRL does not provide"):
        check_needs(Own(), "TRL", ("responses",))


@pytest.mark.parametrize("lacks", [{"advantage": [math.nan]}, {"tokens": [None]}, {"tokens": [[]]}, None])
def test_a_replay_of_ones_own_without_its_numbers_is_named(lacks):
    """An advantage that was forgotten is NaN, and the update would say that the policy has diverged."""
    whole = group("p", rollout([1, 2], "a")).with_each(advantage=[0.5])
    assert check_replayed(Own(), [whole]) == [whole]
    wrong = dataclasses.replace(whole, prompt_tokens=()) if lacks is None else whole.with_each(**lacks)
    with pytest.raises(DiverError, match="method 'own', problem 'p': replayed rollout 0 needs tokens, .* advantage"):
        check_replayed(Own(), [wrong])


def test_ages_need_steps():
    with pytest.raises(DiverError, match=r"give progress as Progress\(step, steps\)"):
        method_named("verified-replay").apply([group("p", rollout([1], "a"))], 0.5, state={})


def test_settings_out_of_range_name_themselves():
    for table in ({"alpha": -1.0}, {"capacity": 0}, {"bank_gb": 0.0}, {"max_age": -1}):
        with pytest.raises(DiverError, match=f"method.replay.*{next(iter(table))}"):
            method_named("verified-replay", replay=table)
    with pytest.raises(DiverError, match="weights would have no effect: keep = 'latest'"):
        method_named("verified-replay", replay={"keep": "latest", "weights": "frequency"})


def test_settings_of_a_replay_that_is_off_are_refused():
    """A run would otherwise be taken for one with replay."""
    with pytest.raises(DiverError, match=r"^method.replay: capacity, keep would have no effect: without alpha"):
        method_named("max-rl", replay={"capacity": 4, "keep": "latest"})
    assert method_named("max-rl", replay={"alpha": 0.1, "capacity": 4}).replay.capacity == 4


def test_a_run_continues_with_its_bank(tmp_path, monkeypatch):
    """Stopped after 2 of 3 steps and resumed: rows, weights and bank equal those of a run in one go."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    (tmp_path / "tiny.toml").write_text(
        '[model]\npath = "countdown"\nthreads = 1\n[sample]\ngroup_size = 8\nmax_tokens = 40\nmax_prompt_tokens = 24\n'
        "[train]\nsteps = 3\nbatch_size = 4\nmini_batch_size = 2\nlearning_rate = 1e-4\nsave_steps = 1\n"
        '[method]\nname = "verified-replay"\n[data.countdown]\nproblems = 12\n[evaluate]\nproblems = 0\n'
    )

    def run(folder, *flags):
        done = command("train", "tiny.toml", "--run.folder", folder, *flags, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        rows = [json.loads(line) for line in (tmp_path / folder / "metrics.jsonl").read_text().splitlines()]
        return done.stdout + done.stderr, [{k: v for k, v in row.items() if not k.startswith("time/")} for row in rows]

    said, whole = run("whole")
    assert "one response per solution, which is the verifier's canonical solution (countdown)" in said
    run("parts", "--train.steps", 2)
    _, parts = run("parts", "--train.steps", 3)
    assert parts == whole and len(whole) == 3
    files = ("method.json", "method.bin", "model.safetensors")
    one, other = (tmp_path / folder / "checkpoints" / "step_0003" for folder in ("whole", "parts"))
    assert all((one / name).read_bytes() == (other / name).read_bytes() for name in files)
    assert whole[0]["replay/age"] == 0 and whole[-1]["replay/age"] > 0
    for row in whole:
        assert row["replay/rollouts"] >= row["replay/problems"] > 0 and 0 < row["replay/gradient_share"] < 1
        assert row["response/length_mean"] <= 40 and row["replay/logprob"] < 0
    drawn = curve(tmp_path / "whole" / "report.html", "replay/gradient_share")
    assert drawn == ([1, 2, 3], pytest.approx([row["replay/gradient_share"] for row in whole], abs=1e-3))


def test_alpha_0_is_the_base_method():
    state = {}
    method = method_named("verified-replay", replay={"alpha": 0.0})
    method.apply([group("p", rollout([1], "a"), rollout([2], None, Grade.WRONG))], Progress(0, 1), state=state)
    assert state == {} and method.replayed(state, 4, Progress(0, 1)) == []

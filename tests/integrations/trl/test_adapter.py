"""The reward function by itself, in one process, given what TRL gives it."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("accelerate")

import diver
from diver.integrations.engines import engines
from diver.integrations.trl import GroupAdvantage, config
from diver.methods import METHODS, method_named
from diver.types import DiverError, Progress

TEXTS = [r"so $1+1=2$ \boxed{2}", r"we add: $2=1+1$, \boxed{2}", r"\boxed{3}", r"\boxed{2} it is"]
OUTCOMES = [1.0, 1.0, 0.0, 1.0]


def arguments(method="grpo", **changes):
    """The fields of a GRPOConfig that count here, as `config` gives them for `method`."""
    fields = {
        **config(method),
        "num_generations": 4,
        "num_generations_eval": None,
        "max_completion_length": 5,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 2,
        "num_iterations": 1,
        "output_dir": "run",
    }
    return SimpleNamespace(**{**fields, **changes})


class Tokenizer:
    """What the adapter uses of a tokenizer."""

    eos_token_id = 2

    opened = ""

    def decode(self, ids, skip_special_tokens):
        return f"a b c d {ids} {'</think>' * (1 in ids)}"

    def apply_chat_template(self, messages, tokenize, add_generation_prompt):
        return f"{messages}\n<|assistant|>\n{self.opened}"


def adapter(method, args, **options):
    return GroupAdvantage(method, args, Tokenizer(), **options)


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the schedule of a run is kept


class Batch:
    """Two groups of four, the second as chat messages where asked, and what was logged of them."""

    def __init__(self, chat=False, step=0, steps=40):
        question = [{"role": "user", "content": "1+1?"}] if chat else "1+1?"
        other = [{"role": "user", "content": "again, 1+1?"}] if chat else "again, 1+1?"
        said = [[{"role": "assistant", "content": text}] for text in TEXTS] if chat else TEXTS
        self.metrics, self.extra = {}, {}
        self.given = {
            "prompts": [question] * 4 + [other] * 4,
            "completions": said * 2,
            "completion_ids": [[7, 8, 9]] * 8,
            "answer": ["2"] * 8,
            "trainer_state": SimpleNamespace(global_step=step, max_steps=steps),
            "log_metric": self.metrics.__setitem__,
            "log_extra": self.extra.__setitem__,
        }


def expected(method, fraction):
    keys = ["2", "2", "3", "2"] * 2  # the answers
    return diver.advantages(TEXTS * 2, OUTCOMES * 2, [0] * 4 + [1] * 4, method, fraction, keys=keys).tolist()


BY_A_MODEL = {"evol-rl", "dra-grpo", "rep-exp"}  # of an encoder from the hub
CARRIED = [name for name in METHODS if "TRL" in engines(method_named(name)) and name not in BY_A_MODEL]


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("name", CARRIED)
def test_advantages_are_those_of_the_drop_in(name, chat):
    batch, method = Batch(chat), method_named(name, **({"k": 2} if name == "pass-at-k" else {}))
    returned = adapter(method, arguments(method))(**batch.given)
    assert returned == expected(method, 0.0)
    assert batch.metrics["reward/outcome"] == 0.75 and batch.metrics["grade/wrong"] == 0.25
    assert batch.extra["outcome"] == OUTCOMES * 2 and len(batch.extra["textual"]) == 8


def test_pass_at_k_training_by_hand():
    method = method_named("pass-at-k", k=2)  # half of the pairs of 4 hold the one that is correct
    returned = adapter(method, arguments(method), outcome=lambda **_: [0.0, 1.0, 0.0, 0.0] * 2)(**Batch().given)
    np.testing.assert_allclose(returned, [-1 / 3, 1, -1 / 3, -1 / 3] * 2)


def test_a_method_of_ones_own():
    returned = adapter("own_methods:MaxRl", arguments("own_methods:MaxRl"))(**Batch().given)
    np.testing.assert_allclose(returned, [1 / 3, 1 / 3, -1, 1 / 3] * 2)
    with pytest.raises(DiverError) as error:
        adapter("own_methods:Likelihood", arguments())
    assert str(error.value) == "method 'own_methods:Likelihood' needs logprobs, which TRL does not give it"
    with pytest.raises(DiverError) as error:
        adapter(method_named("grpo", loss={"name": "own_methods:Loss"}), arguments())
    assert str(error.value).startswith("method.loss.name = 'own_methods:Loss': TRL has no such loss; train")


def test_lambda_goes_by_rollout_steps():
    """Four micro-batches a rollout, two an optimizer step: 40 optimizer steps are 20 rollouts, and step 11 is in the sixth."""
    batch = Batch(step=11)
    reward = adapter("diver-mix", arguments("diver-mix"))
    assert reward(**batch.given) == expected("diver-mix", 5 / 20)
    assert batch.metrics["shaping/coef"] == method_named("diver-mix").shaping_coef(Progress(5, 20))
    assert expected("diver-mix", 5 / 20) != expected("diver-mix", 11 / 40)


def test_the_users_own_outcome_in_trls_signature():
    seen = {}

    def reward(prompts, completions, completion_ids, answer, trainer_state, **others):
        seen.update(answer=answer, others=sorted(others))
        return [0.0, 1.0, 1.0, 0.0] * 2

    batch = Batch()
    returned = adapter("grpo", arguments(), outcome=reward)(**batch.given)
    np.testing.assert_allclose(returned, [-1, 1, 1, -1] * 2)
    assert seen == {"answer": ["2"] * 8, "others": ["log_extra", "log_metric"]}
    assert not any(name.startswith("grade/") for name in batch.metrics)


def test_a_horizon_reads_the_policys_tokens():
    method = method_named("diver-td", diversity={"horizon": 2})
    batch = Batch()
    batch.given["completion_ids"] = [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0]] * 2
    returned = adapter(method, arguments(method))(**batch.given)
    assert returned[0] == returned[1] < returned[3] and returned[2] < 0


def test_a_completion_at_the_limit_is_truncated_unless_its_last_token_ends_it():
    batch = Batch()
    batch.given["completions"] = ["no box, 2"] * 8
    batch.given["completion_ids"] = [[7] * 5, [7] * 4, [7, 7, 7, 7, 2], [7, 7, 7, 7, 9]] * 2
    adapter("grpo", arguments())(**batch.given)
    assert batch.metrics["response/truncated"] == batch.metrics["grade/truncated"] == 0.5
    adapter("grpo", arguments(), ends=[9])(**batch.given)  # a model with two end tokens
    assert batch.metrics["response/truncated"] == batch.metrics["grade/truncated"] == 0.25


def test_what_a_tool_answers_is_not_judged():
    batch = Batch(chat=True)
    for said in batch.given["completions"]:
        said.insert(0, {"role": "tool", "content": r"\boxed{3}"})
        said.append({"role": "tool", "content": r"\boxed{3}"})
    assert adapter("grpo", arguments())(**batch.given) == expected("grpo", 0.0)
    assert batch.metrics["reward/outcome"] == 0.75


@pytest.mark.parametrize("chat", [False, True])
def test_an_answer_inside_a_thought_that_the_prompt_opened_is_not_judged(chat, monkeypatch):
    """Closed or not is read in the tokens: of parsed messages TRL may have taken the thought away."""
    monkeypatch.setattr(Tokenizer, "opened", "<think>\n")
    batch = Batch(chat)
    if not chat:
        batch.given["prompts"] = [f"{prompt}<think>" for prompt in batch.given["prompts"]]
    adapter("grpo", arguments())(**batch.given)
    assert batch.metrics["reward/outcome"] == 0 and batch.metrics["grade/no_answer"] == 1
    batch.given["completion_ids"] = [[7, 1, 9], [7, 8, 9]] * 4
    adapter("grpo", arguments())(**batch.given)
    assert batch.metrics["grade/no_answer"] == 0.5 and batch.extra["outcome"] == [1, 0, 0, 0] * 2


def test_groups_that_are_not_whole_are_told():
    batch = Batch()
    for name in ("prompts", "completions", "completion_ids", "answer"):
        batch.given[name] = batch.given[name][2:]
    with pytest.raises(DiverError, match=r"rows 0 to 3 of a batch of 6 answer 2 prompts: .* num_generations = 4"):
        adapter("grpo", arguments())(**batch.given)
    for name in ("prompts", "completions", "completion_ids", "answer"):
        batch.given[name] = batch.given[name][2:3]
    with pytest.raises(DiverError, match="rows 0 to 3 of a batch of 1 answer 1 prompts"):
        adapter("grpo", arguments())(**batch.given)


def test_a_prompt_that_the_outcome_is_not_for_has_no_advantage():
    batch, seen = Batch(), []
    reward = adapter(
        "grpo",
        arguments(),
        outcome=lambda **_: [1.0, 0, 0, 1] + [None] * 4,
        on_step=lambda *given: seen.append(given),
    )
    assert reward(**batch.given) == [1, -1, -1, 1, 0, 0, 0, 0]
    assert batch.metrics["reward/outcome"] == 0.5 and math.isnan(batch.extra["outcome"][7])
    ((step, groups, _),) = seen
    assert step == 1 and [group.prompt for group in groups] == ["1+1?"]
    with pytest.raises(DiverError, match="prompt '1\\+1\\?': the outcome of 2 of 4 completions is None or NaN"):
        adapter("grpo", arguments(), outcome=lambda **_: [1.0, None] * 4)(**batch.given)


def test_an_error_of_another_process_is_told(monkeypatch):
    """One that fails still takes part in the gathering, so that the others end, too."""
    import accelerate.utils

    gathered = []

    def two_processes(own):
        gathered.extend(own)
        return [([], "process 0: KeyError: 'gold'"), *own]

    monkeypatch.setattr(accelerate.utils, "gather_object", two_processes)
    with pytest.raises(DiverError, match="the reward function failed on process 0: KeyError: 'gold'"):
        adapter("grpo", arguments())(**Batch().given)

    def broken(**_):
        raise KeyError("gold")

    with pytest.raises(KeyError):
        adapter("grpo", arguments(), outcome=broken)(**Batch().given)
    assert gathered[-1] == ([], "process 0: KeyError: 'gold'")


def test_a_run_that_is_extended_keeps_its_schedule():
    first = Batch(step=0, steps=40)
    adapter("diver-mix", arguments("diver-mix"))(**first.given)
    extended = Batch(step=30, steps=80)  # 15 of 20 rollout steps, then 40 were asked
    assert adapter("diver-mix", arguments("diver-mix"))(**extended.given) == expected("diver-mix", 15 / 20)
    again = Batch(step=0, steps=80)  # another run in the same folder
    adapter("diver-mix", arguments("diver-mix"))(**again.given)
    half = Batch(step=40, steps=80)
    assert adapter("diver-mix", arguments("diver-mix"))(**half.given) == expected("diver-mix", 20 / 40)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scale_rewards": "group"}, r"set scale_rewards='none' \(it is 'group'\)"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "set multi_objective_aggregation='sum_then_normalize'"),
        ({"loss_type": "bnpo"}, r"method 'grpo': set loss_type='dapo' \(it is 'bnpo'\)"),
        ({"epsilon_high": 0.28, "beta": 0.04}, r"set beta=0.0 \(it is 0.04\), epsilon_high=0.2 \(it is 0.28\)"),
        ({"entropy_coef": 0.01}, "set entropy_coef=0.0"),
        ({"num_generations_eval": 1}, "num_generations_eval is 1: .* set it to num_generations, 4"),
    ],
)
def test_a_configuration_of_another_method_is_refused(changes, told):
    with pytest.raises(DiverError, match=told):
        adapter("grpo", arguments(**changes))
    adapter("grpo", arguments(epsilon_high=None))  # which is epsilon in TRL


def test_what_the_seam_cannot_give_is_refused():
    with pytest.raises(DiverError, match="a selection drops rollouts"):
        config(method_named("diver-mix", selection={"keep": "most"}))
    with pytest.raises(DiverError, match="method.loss.name = 'clip-cov': TRL has no such loss"):
        adapter("clip-cov", arguments())
    with pytest.raises(DiverError, match="method 'nsr': its advantages do not sum to 0 in a group, and TRL subtracts"):
        config("nsr")
    with pytest.raises(DiverError, match="method 'ucpo' needs logprobs, which TRL does not give it"):
        config("ucpo")
    with pytest.raises(DiverError, match="method.k is 4 with num_generations = 4: k must be below G"):
        adapter("pass-at-k", arguments("pass-at-k"))


def test_trl_knows_every_key_of_the_configuration():
    trl = pytest.importorskip("trl")
    for name in (name for name in METHODS if "TRL" in engines(method_named(name))):
        args = trl.GRPOConfig("out", use_cpu=True, bf16=False, report_to="none", **config(name))
        assert adapter(name, args).method.name == name
        assert not args.use_bias_correction_kl  # the divergence of every token as it is, not times its ratio
        loss = method_named(name).loss
        assert (args.epsilon, args.epsilon_high) == (loss.clip_low, loss.clip_high)
        assert args.importance_sampling_level == ("sequence" if name == "gspo" else "token")

"""The reward function by itself, in one process, given what TRL gives it."""

import asyncio
import json
import math
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("accelerate")

import diver
from diver.core.types import DiverError, Grade, Group, Problem, Progress, Rollout
from diver.grading import verify
from diver.integrations.engines import refusals
from diver.integrations.trl import GroupAdvantage, config, lazy, objective
from diver.methods import METHODS, method_named
from diver.tasks.sources import load_problems

TEXTS = [r"so $1+1=2$ \boxed{2}", r"we add: $2=1+1$, \boxed{2}", r"\boxed{3}", r"\boxed{2} it is"]
OUTCOMES = [1.0, 1.0, 0.0, 1.0]
ANSWER_ENDS = [len(TEXTS[0]), len(TEXTS[1]), len(TEXTS[2]), len(r"\boxed{2}")]
PAGE = (Path(__file__).parents[3] / "docs" / "engines" / "trl.md").read_text(encoding="utf-8")
WRITTEN = {100 + i: text for i, text in enumerate(TEXTS)}  # what a completion that ends with this token decodes to


def arguments(method="grpo", **changes):
    """The fields of a GRPOConfig that count here, as `config` gives them for `method`."""
    fields = {
        **config(method),
        "reward_weights": None,
        "num_generations": 4,
        "num_generations_eval": None,
        "max_completion_length": 5,
        "steps_per_generation": 4,
        "gradient_accumulation_steps": 4,
        "num_iterations": 1,
        "output_dir": "run",
    }
    return SimpleNamespace(**{**fields, **changes})


class Tokenizer:
    """What the adapter uses of a tokenizer."""

    eos_token_id = 2

    opened = ""

    def decode(self, ids, skip_special_tokens):
        if ids[-1] in WRITTEN:
            return WRITTEN[ids[-1]]
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
            "completion_ids": [[7, 8, last] for last in range(100, 104)] * 2,
            "answer": ["2"] * 8,
            "trainer_state": SimpleNamespace(global_step=step, max_steps=steps),
            "log_metric": self.metrics.__setitem__,
            "log_extra": self.extra.__setitem__,
        }


def expected(method, fraction):
    keys = ["2", "2", "3", "2"] * 2  # the answers
    known = {"keys": keys, "answer_ends": ANSWER_ENDS * 2, "truncated": [False] * 8}
    return diver.advantages(TEXTS * 2, OUTCOMES * 2, [0] * 4 + [1] * 4, method, fraction, **known).tolist()


EVERY_TRLS = method_named("diver-mix", loss={"aggregation": "sequence-mean"})
TWO_UPDATES = EVERY_TRLS, arguments(EVERY_TRLS, gradient_accumulation_steps=2)
"""Two optimizer steps a rollout, with a loss that an older TRL normalises as a newer one does."""
BY_A_MODEL = {"evol-rl", "dra-grpo", "rep-exp"}  # of an encoder from the hub
SETS = {"pass-at-k", "max-at-k", "poly-epo"}  # of k responses, fewer than the four of a group
CARRIED = [name for name in METHODS if "TRL" not in refusals(method_named(name)) and name not in BY_A_MODEL]


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("name", CARRIED)
def test_advantages_are_those_of_the_drop_in(name, chat):
    batch, method = Batch(chat), method_named(name, **({"k": 2} if name in SETS else {}))
    returned = adapter(method, arguments(method))(**batch.given)
    assert returned == expected(method, 0.0)
    assert batch.metrics["reward/outcome"] == 0.75 and batch.metrics["grade/wrong"] == 0.25
    assert batch.extra["outcome"] == OUTCOMES * 2 and len(batch.extra["textual"]) == 8


TAILS = ["", "", "", "", " la $x=1$", " and $y=2$ so", " no $z=3$ is", " or $w=4$ it"]


@pytest.mark.parametrize("progress", [0, 20, 39])
@pytest.mark.parametrize("name", ["diver-td", "diver-ed", "diver-mix"])
def test_text_after_the_answer_earns_nothing(name, progress):
    """Eight equal answers, four of them with a tail: our verifier finds where the answer ends."""
    texts = [r"so $1+1=2$ \boxed{2}" + tail for tail in TAILS]
    given = Batch(step=progress).given | {"prompts": ["1+1?"] * 8, "completions": texts}
    args = arguments(name, num_generations=8)
    assert adapter(name, args)(**given) == [0.0] * 8
    # A reward function of the user's own says nothing of it, unless `answer_ends` does.
    own = {"outcome": lambda **_: [1.0] * 8}
    ends = {"answer_ends": lambda completions, **_: [len(texts[0])] * len(completions)}
    assert adapter(name, args, **own, **ends)(**given) == [0.0] * 8
    with pytest.warns(UserWarning, match="`outcome` does not say where an answer ends"):
        assert adapter(name, args, **own)(**given) != [0.0] * 8


def test_the_answer_ends_behind_a_thought_that_trl_has_parsed():
    """The rollout's text is all that was written, the thought too; what is graded is the content of the message."""
    batch, groups = Batch(chat=True), []
    WRITTEN[104] = "<think>hm</think>" + TEXTS[3]
    given = batch.given | {"completion_ids": [[7, 104]] * 8, "completions": [batch.given["completions"][3]] * 8}
    adapter("diver-td", arguments("diver-td"), on_step=lambda step, found, metrics: groups.extend(found))(**given)
    assert {r.until_answer for group in groups for r in group.rollouts} == {r"<think>hm</think>\boxed{2}"}


def test_pass_at_k_training_by_hand():
    method = method_named("pass-at-k", k=2)  # half of the pairs of 4 hold the one that is correct
    returned = adapter(method, arguments(method), outcome=lambda **_: [0.0, 1.0, 0.0, 0.0] * 2)(**Batch().given)
    np.testing.assert_allclose(returned, [-1 / 3, 1, -1 / 3, -1 / 3] * 2)


def test_a_method_of_ones_own():
    returned = adapter("own_methods:MaxRl", arguments("own_methods:MaxRl"))(**Batch().given)
    np.testing.assert_allclose(returned, [1 / 3, 1 / 3, -1, 1 / 3] * 2)
    with pytest.raises(DiverError) as error:
        adapter("own_methods:Likelihood", arguments())
    assert str(error.value) == "method 'own_methods:Likelihood' needs logprobs, which TRL does not provide"
    with pytest.raises(DiverError) as error:
        adapter(method_named("grpo", loss={"name": "own_methods:Loss"}), arguments())
    assert str(error.value).startswith(
        "method.loss.name = 'own_methods:Loss': the TRL adapter does not support this loss; train"
    )


def test_lambda_goes_by_rollout_steps():
    """Four micro-batches a rollout, two an optimizer step: 40 optimizer steps are 20 rollouts,
    and step 11 is in the sixth."""
    batch = Batch(step=11)
    reward = adapter(*TWO_UPDATES)
    assert reward(**batch.given) == expected("diver-mix", 5 / 20)
    assert batch.metrics["shaping/coef"] == method_named("diver-mix").shaping_coef(Progress(5, 20))
    assert expected("diver-mix", 5 / 20) != expected("diver-mix", 11 / 40)


def test_batches_that_begin_between_two_optimizer_steps_are_counted():
    """Three micro-batches a rollout, two an optimizer step: rollouts begin at micro-batches 0, 3, 6, 9, ..."""
    steps = []
    method = method_named("grpo", loss={"aggregation": "sequence-mean"})  # which every TRL carries with several updates
    args = arguments(method, **{"steps_per_generation": 3, "gradient_accumulation_steps": 2})
    reward = adapter(method, args, on_step=lambda step, groups, metrics: steps.append(step))
    for micro in range(0, 18, 3):
        reward(**Batch(step=micro // 2).given)
    assert steps == [1, 2, 3, 4, 5, 6]


def test_several_batches_of_one_optimizer_step_are_counted():
    """Two micro-batches a rollout, four an optimizer step: two rollouts a step, each with a lambda of its own."""
    steps = []
    method = method_named("diver-mix", loss={"aggregation": "sequence-mean"})
    args = arguments(method, steps_per_generation=2, gradient_accumulation_steps=4)
    reward = adapter(method, args, on_step=lambda step, groups, metrics: steps.append((step, metrics["shaping/coef"])))
    state = SimpleNamespace(global_step=0, max_steps=4)
    for global_step in (0, 0, 1, 1, 2):
        state.global_step = global_step
        reward(**Batch().given | {"trainer_state": state})
    reward(**Batch(step=2, steps=4).given)  # `train` was called again, with a state of its own
    assert steps == [(i, method.shaping_coef(Progress(i - 1, 8))) for i in (1, 2, 3, 4, 5, 5)]


def test_lambda_is_that_of_the_first_process(monkeypatch):
    """The others may have no file of the schedule: here the run was begun with 4 steps, and extended to 40."""
    import accelerate.utils

    monkeypatch.setattr(
        accelerate.utils, "gather_object", lambda own: [([], Progress(3, 4), None), *((r, p, e) for r, p, e in own)]
    )
    batch = Batch(step=6, steps=80)
    adapter(*TWO_UPDATES)(**batch.given)
    assert batch.metrics["shaping/coef"] == method_named("diver-mix").shaping_coef(Progress(3, 4))
    assert method_named("diver-mix").shaping_coef(Progress(3, 40)) != batch.metrics["shaping/coef"]


CHOICES = [["one", "two", "three", "four"], ["red", "green", "blue", "grey"]]


def choice_batch(boxes, answers):
    """Two questions of multiple choice, whose answers are the places of options; a data set has a third."""
    batch = Batch()
    batch.given["completions"] = [rf"so \boxed{{{box}}}" for box in boxes]
    batch.given["choices"] = [choices for choices in CHOICES for _ in range(4)]
    batch.given["answer"] = [answer for answer in answers for _ in range(4)]
    rows = [{"prompt": batch.given["prompts"][4 * i], "choices": CHOICES[i], "answer": answers[i]} for i in range(2)]
    return batch, [*rows, {"prompt": "and?", "choices": CHOICES[0], "answer": answers[2]}]


@pytest.mark.parametrize(
    ("answers", "boxes", "outcomes"),
    [
        ((2, 3, 0), "CABD" + "DABC", [1, 0, 0, 0] * 2),  # from 0, by the third row
        ((2, 3, 4), "BACD" + "CABD", [1, 0, 0, 0] * 2),  # from 1, as the third has 4 of 4 options
        (("C", "D", "A"), "CABD" + "DABC", [1, 0, 0, 0] * 2),
        (("blue", "grey", "one"), "CABD" + "DABC", [0, 0, 0, 0, 1, 0, 0, 0]),  # no option of the first question
    ],
)
def test_a_choice_by_index_is_graded_as_diver_train_does(answers, boxes, outcomes, tmp_path):
    batch, rows = choice_batch(boxes, answers)
    trainer = Trainer([adapter("grpo", arguments())], arguments())
    trainer.train_dataset = rows
    trainer.call = lambda self=trainer: self.reward_funcs[0](**batch.given)
    trainer.call()
    assert batch.extra["outcome"] == outcomes
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    known = {p.prompt.splitlines()[0]: p for p in load_problems(str(file))}
    groups = [
        Group(known[prompt], [Rollout(text)])
        for prompt, text in zip(batch.given["prompts"], batch.given["completions"], strict=True)
    ]
    assert [float(group.rollouts[0].grade is Grade.CORRECT) for group in verify(groups)] == outcomes


@pytest.mark.parametrize("name", ["train_dataset", "eval_dataset"])
@pytest.mark.parametrize("answer", [None, "", "proof"])
def test_a_row_without_an_answer_is_found_in_the_data_set(name, answer):
    """At the first call, which is not about this row; an `outcome` of the user's own needs no answers."""
    rows = [{"prompt": f"1+{i}?", "answer": str(1 + i)} for i in range(9)]
    good, rows[7] = [*rows], {"prompt": "1+7?", "answer": answer}
    for outcome in (None, lambda **_: [1.0, 0.0] * 4):
        for data, is_bad in ((rows, True), (good, False), (iter(rows), False), ({"hard": rows}, name[:1] == "e")):
            trainer = Trainer([adapter("grpo", arguments(), outcome=outcome)], arguments())
            setattr(trainer, name, data)
            if is_bad and outcome is None:
                told = rf"^{'hard' if isinstance(data, dict) else name}\[7\]: "
                with pytest.raises(DiverError, match=told):
                    trainer.call()
            elif not isinstance(data, dict) or name[:1] == "e":
                trainer.call()


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
    method = method_named("diver-td", diversity={"horizon": 2, "until": "end"})
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


class Counting(Tokenizer):
    """A tokenizer with a token for each word, and one in front of a flat text."""

    def __call__(self, text, add_special_tokens):
        return {"input_ids": [1] * add_special_tokens + [3] * len(text.split())}


@pytest.mark.parametrize(("context", "cut"), [(None, 0.0), (9, 0.0), (8, 0.5), (7, 0.5)])
def test_a_completion_at_the_end_of_vllms_context_is_truncated(context, cut):
    """A prompt of three tokens with a completion of four fills a context of seven, of which vLLM may keep one free."""
    batch = Batch()
    batch.given["prompts"] = [prompt and "two words" for prompt in batch.given["prompts"]]
    batch.given["completions"] = ["no box, 2"] * 8
    batch.given["completion_ids"] = [[7] * 4, [7, 7, 7, 2]] * 4
    args = arguments(vllm_max_model_length=context, max_completion_length=50, num_generations=8)
    GroupAdvantage("grpo", args, Counting())(**batch.given)
    assert batch.metrics["response/truncated"] == cut


@pytest.mark.parametrize("limit", [5, None])
def test_the_end_tokens_of_the_trainer_end_a_completion(limit):
    """TRL stops at every end token of the model, such as <|eot_id|> beside the tokenizer's <|end_of_text|>."""
    args, batch = arguments(max_completion_length=limit), Batch()
    batch.given["completion_ids"] = [[7] * 5, [7] * 6, [7, 7, 7, 7, 2], [7, 7, 7, 7, 9]] * 2
    trainer = Trainer([adapter("grpo", args)], args)
    trainer.eos_token_ids = [2, 9]
    trainer.call = lambda self=trainer: self.reward_funcs[0](**batch.given)  # `self` is what the adapter looks for
    trainer.call()
    assert batch.metrics["response/truncated"] == 0.5


def test_what_a_tool_answers_is_not_judged():
    batch = Batch(chat=True)
    for said in batch.given["completions"]:
        said.insert(0, {"role": "tool", "content": r"\boxed{3}"})
        said.append({"role": "tool", "content": r"\boxed{3}"})
    assert adapter("grpo", arguments())(**batch.given) == expected("grpo", 0.0)
    assert batch.metrics["reward/outcome"] == 0.75


THOUGHTS = [
    "carry nothing",
    r"one and one, $1+1=2$, surely \boxed{2}",
    r"two? or three, \boxed{2}",
    "by definition of 2",
]


@pytest.mark.parametrize("name", ["reasoning_content", "thinking"])  # the words of TRL's templates
def test_a_thought_that_trl_has_parsed_away_is_part_of_the_text(name, monkeypatch):
    """As where TRL parses nothing: what the tokens decode to. The answer is still what stands behind the thought."""
    whole = [f"<think>{thought}</think>{text}" for thought, text in zip(THOUGHTS, TEXTS, strict=True)]
    monkeypatch.setattr("test_adapter.WRITTEN", {100 + i: text for i, text in enumerate(whole)})
    batch, seen = Batch(chat=True), []
    for i, (message,) in enumerate(batch.given["completions"]):
        message[name] = THOUGHTS[i % 4]
    reward = adapter("diver-mix", arguments("diver-mix"), on_step=lambda *given: seen.extend(given[1]))
    alone = diver.advantages(whole * 2, OUTCOMES * 2, [0] * 4 + [1] * 4, "diver-mix").tolist()
    assert reward(**batch.given) == alone != expected("diver-mix", 0.0)
    assert [rollout.response for rollout in seen[0].rollouts] == whole and batch.extra["outcome"] == OUTCOMES * 2


def test_thoughts_and_calls_between_the_answers_of_tools_are_part_of_the_text():
    """TRL does not say which tokens were a tool's, so the text is made of the messages."""
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": 1}}}
    batch, seen = Batch(chat=True), []
    for said in batch.given["completions"][:4]:
        first = {"role": "assistant", "reasoning_content": "by a tool", "content": "", "tool_calls": [call]}
        said[:] = [first, {"role": "tool", "name": "add", "content": r"\boxed{3}"}, said[0]]
    adapter("grpo", arguments(), on_step=lambda *given: seen.extend(given[1]))(**batch.given)
    before = '<think>\nby a tool\n</think>\n{"name": "add", "arguments": {"a": 1, "b": 1}}\n'
    assert [rollout.response for rollout in seen[0].rollouts] == [before + text for text in TEXTS]
    assert batch.extra["outcome"] == OUTCOMES * 2


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


def test_a_prompt_that_only_mentions_a_thought_opens_none():
    batch = Batch()
    batch.given["prompts"] = [f"Without a <think> block: {prompt}" for prompt in batch.given["prompts"]]
    adapter("grpo", arguments())(**batch.given)
    assert batch.metrics["reward/outcome"] == 0.75 and batch.metrics["grade/no_answer"] == 0


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
        return [([], None, "process 0: KeyError: 'gold'"), *own]

    monkeypatch.setattr(accelerate.utils, "gather_object", two_processes)
    with pytest.raises(DiverError, match="the reward function failed on process 0: KeyError: 'gold'"):
        adapter("grpo", arguments())(**Batch().given)

    def broken(**_):
        raise KeyError("gold")

    with pytest.raises(KeyError):
        adapter("grpo", arguments(), outcome=broken)(**Batch().given)
    assert gathered[-1] == ([], None, "process 0: KeyError: 'gold'")


def test_a_run_that_is_extended_keeps_its_schedule():
    first = Batch(step=0, steps=40)
    adapter(*TWO_UPDATES)(**first.given)
    extended = Batch(step=30, steps=80)  # 15 of 20 rollout steps, then 40 were asked
    assert adapter(*TWO_UPDATES)(**extended.given) == expected("diver-mix", 15 / 20)
    again = Batch(step=0, steps=80)  # another run in the same folder
    adapter(*TWO_UPDATES)(**again.given)
    half = Batch(step=40, steps=80)
    assert adapter(*TWO_UPDATES)(**half.given) == expected("diver-mix", 20 / 40)


def test_steps_that_are_not_known_yet_are_not_kept(tmp_path):
    """TRL says 0 steps in an evaluation before training: lambda has its first value, and the run its own steps."""
    reward, file = adapter(*TWO_UPDATES), tmp_path / "run" / "schedule.json"
    assert reward(**Batch(step=0, steps=0).given) == expected("diver-mix", 0.0) != expected("diver-mix", 1.0)
    assert not file.exists()
    assert reward(**Batch(step=0, steps=40).given) == expected("diver-mix", 0.0)
    assert reward(**Batch(step=20, steps=40).given) == expected("diver-mix", 10 / 20)
    file.write_text('{"steps": 0}')  # which an earlier version wrote
    assert adapter(*TWO_UPDATES)(**Batch(step=20, steps=40).given) == expected("diver-mix", 10 / 20)
    assert file.read_text() == '{"steps": 20}\n'


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scale_rewards": "group"}, r"set scale_rewards='none' \(it is 'group'\)"),
        ({"multi_objective_aggregation": "normalize_then_sum"}, "set multi_objective_aggregation='sum_then_normalize'"),
        ({"loss_type": "bnpo"}, r"method 'grpo': set loss_type='dapo' \(it is 'bnpo'\)"),
        ({"epsilon_high": 0.28, "beta": 0.04}, r"set beta=0.0 \(it is 0.04\), epsilon_high=0.2 \(it is 0.28\)"),
        ({"entropy_coef": 0.01}, "set entropy_coef=0.0"),
        ({"router_aux_loss_coef": 0.001}, r"set router_aux_loss_coef=0.0 \(it is 0.001\)"),
        ({"sync_ref_model": True}, r"set sync_ref_model=False \(it is True\)"),
    ],
)
def test_a_configuration_of_another_method_is_refused(changes, told):
    if not {*changes} <= {*config("grpo")}:
        pytest.skip(f"the TRL installed here has no {' '.join(changes)}")
    with pytest.raises(DiverError, match=told):
        adapter("grpo", arguments(**changes))
    adapter("grpo", arguments(epsilon_high=None))  # which is epsilon in TRL
    adapter("grpo", arguments(use_bias_correction_kl=True))  # of a divergence that is not in the loss
    adapter("grpo", arguments(router_aux_loss_coef=None))  # of experts that a model may not have


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("max_new_tokens", "max_completion_length"),
        ("max_tokens", "max_completion_length"),
        ("temperature", "temperature"),
    ],
)
def test_a_limit_or_temperature_that_trl_takes_from_elsewhere_is_refused(name, field):
    """A response that ends at another limit would count as finished, and log-probs would be of another temperature."""
    told = f"GRPOConfig.generation_kwargs.{name}: set {field} instead, which the loss reads"
    with pytest.raises(DiverError, match=f"^{told}$"):
        adapter("grpo", arguments(generation_kwargs={"top_k": 5, name: 3}))
    adapter("grpo", arguments(generation_kwargs={"top_k": 5}))


@pytest.mark.parametrize(
    ("changes", "warns"),
    [
        ({}, True),  # TRL's defaults
        ({"clip_min": 1 - 1e-6, "clip_max": 1 + 1e-6, "mode": "token_truncate"}, False),
        (
            {"clip_min": 1 - 1e-6, "clip_max": 1 + 1e-6, "mode": "sequence_mask"},
            True,
        ),  # it would leave out every response
        ({"clip_max": 2.0, "mode": "token_truncate"}, True),
        ({"correction": False}, False),
    ],
)
def test_a_correction_of_the_loss_for_vllm_is_told_at_once(changes, warns):
    """The bounds are those of the page."""
    defaults = {"correction": True, "mode": "sequence_mask", "clip_min": None, "clip_max": 3.0}
    fields = {f"vllm_importance_sampling_{name}": value for name, value in (defaults | changes).items()}
    told = "GRPOConfig.vllm_importance_sampling_correction: TRL multiplies the loss by a ratio that is no part of"
    with pytest.warns(UserWarning, match=told) if warns else warnings.catch_warnings(action="error"):
        adapter("grpo", arguments(use_vllm=True, **fields))
    with warnings.catch_warnings(action="error"):
        adapter("grpo", arguments(use_vllm=False, **fields))


def test_a_configuration_of_another_trainer_is_refused():
    with pytest.raises(DiverError, match="SimpleNamespace has no scale_rewards, .*: give a GRPOConfig and train with"):
        adapter("grpo", SimpleNamespace(num_generations=4, max_completion_length=5))


def test_a_completion_without_a_limit_was_cut_where_no_end_token_ends_it():
    batch = Batch()
    batch.given["completion_ids"] = [[7, 2], [7, 7, 7, 7, 7, 7, 2], [7, 9], []] * 2
    adapter("grpo", arguments(max_completion_length=None))(**batch.given)
    assert batch.metrics["response/truncated"] == 0.25
    penalty = method_named("grpo", overlong={"buffer": 0.2})
    with pytest.raises(DiverError, match=r"overlong.max_tokens: max_completion_length is None, so give the limit here"):
        adapter(penalty, arguments(penalty, max_completion_length=None))


def test_fields_that_an_older_trl_lacks_are_left_out_or_refused(monkeypatch):
    def with_trl(*version):
        monkeypatch.setattr(objective, "installed", lambda: version)

    with_trl(0, 24)
    older = config("grpo")
    assert older["scale_rewards"] == "none" and older["loss_type"] == "dapo"
    assert not {"entropy_coef", "use_bias_correction_kl", "off_policy_mask_threshold"} & {*older}
    given = SimpleNamespace(**{name: value for name, value in vars(arguments()).items() if name not in objective.ADDED})
    assert adapter("grpo", given)(**Batch().given) == expected("grpo", 0.0)
    with pytest.raises(DiverError, match="0.24 is installed, without entropy_coef = 0.001; 1.8 or newer is needed"):
        config("entropy-bonus")
    for method in (method_named("grpo", loss={"aggregation": "token-sum"}), "cispo", "sapo"):
        with pytest.raises(DiverError, match="0.24 is installed, whose loss '.*' is another or none; 1.10 or newer"):
            config(method)
    with_trl(0, 21)
    with pytest.raises(DiverError, match="TRL 0.21 is installed; 0.22 or newer is needed"):
        config("grpo")
    with_trl(1, 15)
    with pytest.raises(DiverError, match="TRL 1.15 is installed; 1.16 or newer is needed"):
        config("grpo", objective.TRAINER)
    with_trl(1, 8)
    assert config("entropy-bonus")["entropy_coef"] == 0.001


def test_what_is_changed_after_the_adapter_is_made_is_found():
    """As Unsloth's GRPOConfig changes these under loss_type "dapo", with a line on the screen."""
    args = arguments()
    reward = adapter("grpo", args)
    args.mask_truncated_completions, args.epsilon_high = True, 0.28
    told = (
        "TRL is not configured for method 'grpo': set mask_truncated_completions=False (it is True), epsilon_high=0.2 "
        "(it is 0.28)"
    )
    for broken in (lambda: reward(**Batch().given), lambda: adapter("grpo", args)):
        with pytest.raises(DiverError) as error:
            broken()
        assert str(error.value) == told
    args.mask_truncated_completions, args.epsilon_high = False, 0.2
    assert reward(**Batch().given) == expected("grpo", 0.0)


class Trainer:
    """What the adapter looks for in the trainer that calls it."""

    def __init__(self, reward_funcs, args):
        self.reward_funcs, self.args, self.processing_class = reward_funcs, args, Tokenizer()
        self.model, self.state = SimpleNamespace(training=True), object()

    def compute_loss(self, model, inputs):
        """TRL's."""

    def call(self, index=0):
        return self.reward_funcs[index](**Batch().given)


def brevity(completions, **_):
    return [-len(text) / 1000 for text in completions]


@pytest.mark.parametrize(
    ("before", "weights", "told"),
    [
        ([brevity], None, r"reward functions brevity: TRL would add .* set trainer.reward_weights\[0\] = 0 before"),
        ([brevity], [0.1, 1.0], "reward functions brevity: TRL would add"),
        ([brevity], [0.0, 1.0], None),
        ([], [1.0], None),
    ],
)
def test_nothing_is_added_to_an_advantage(before, weights, told):
    args = arguments(reward_weights=weights)
    trainer = Trainer([*before, adapter("grpo", args)], args)
    if told:
        with pytest.raises(DiverError, match=told):
            trainer.call(len(before))
    else:
        assert trainer.call(len(before)) == expected("grpo", 0.0)


def test_an_evaluation_has_outcomes_and_groups_of_its_own_size():
    """One response to each of eight prompts: no advantage, no step, and nothing of the schedule."""
    args, steps = arguments("diver-mix", num_generations_eval=1), []
    reward = adapter("diver-mix", args, on_step=lambda *given: steps.append(given))
    trainer, batch = Trainer([reward], args), Batch()
    trainer.model.training = False
    batch.given["prompts"] = [f"1+1? {i}" for i in range(8)]
    trainer.call = lambda self=trainer: self.reward_funcs[0](**batch.given)  # `self` is what the adapter looks for
    assert trainer.call() == OUTCOMES * 2
    assert batch.metrics["reward/outcome"] == 0.75 and batch.metrics["grade/wrong"] == 0.25
    assert not steps and not Path("run").exists() and "advantage/abs_mean" not in batch.metrics
    args.num_generations_eval, batch.given["prompts"] = 2, ["a", "a", "b", "b", "c", "c", "d", "d"]
    assert trainer.call() == OUTCOMES * 2


def test_every_batch_has_all_columns_of_trls_table():
    """TRL keeps the last rows of each column, so a column that is left out would stand beside other completions."""
    args = arguments("diver-mix")
    reward = adapter("diver-mix", args)
    training, evaluation, nothing = Batch(), Batch(), Batch()
    reward(**training.given)
    trainer = Trainer([reward], args)
    trainer.model.training = False
    trainer.call = lambda self=trainer: self.reward_funcs[0](**evaluation.given)
    trainer.call()
    with pytest.warns(UserWarning, match="does not say where an answer ends"):
        adapter("diver-mix", args, outcome=lambda **_: [None] * 8)(**nothing.given)
    assert [*training.extra] == [*evaluation.extra] == [*nothing.extra] == ["outcome", "textual", "equational"]
    assert training.extra["outcome"] == evaluation.extra["outcome"] == OUTCOMES * 2
    assert np.isfinite(training.extra["textual"]).all() and np.isnan(evaluation.extra["textual"]).all()
    assert np.isnan([*nothing.extra.values()]).all()


def test_a_trainer_that_was_made_with_another_configuration_is_refused():
    """TRL's trainer copies most fields, so a later change of `trainer.args` is not one of its loss."""
    args = arguments()
    trainer = Trainer([adapter("grpo", args)], args)
    trainer.loss_type, trainer.epsilon_low, trainer.epsilon_high = "dapo", 0.2, 0.2
    trainer.router_aux_loss_coef = 0.001  # the coefficient of a model, of which `aux_loss_enabled` decides
    assert trainer.call() == expected("grpo", 0.0)
    trainer.loss_type, trainer.scale_rewards = "dr_grpo", "group"
    with pytest.raises(DiverError) as error:
        trainer.call()
    assert str(error.value) == (
        "the trainer has scale_rewards='group', loss_type='dr_grpo': correct its GRPOConfig, and create the trainer "
        "again"
    )
    trainer.loss_type, trainer.scale_rewards, trainer.epsilon_low = "dapo", "none", 0.3
    with pytest.raises(DiverError, match="the trainer has epsilon=0.3: correct its GRPOConfig"):
        trainer.call()
    trainer.epsilon_low, trainer.aux_loss_enabled = 0.2, True
    with pytest.raises(DiverError, match="the trainer has router_aux_loss_coef=0.001: correct"):
        trainer.call()


def test_what_an_environment_wrote_in_a_rollout_of_ones_own_is_no_part_of_the_response():
    """A rollout_func says so in the column policy_mask. Each completion is two tokens of the policy, of which the
    second is an answer, and one of the environment, which is another answer."""
    batch, seen = Batch(), []
    batch.given["completions"] = [text + r" \boxed{3}" for text in TEXTS] * 2
    batch.given["completion_ids"] = [[7, last, 9] for last in range(100, 104)] * 2
    reward = adapter("grpo", arguments(), on_step=lambda *given: seen.extend(given[1]))

    def scored(mask):
        return reward(**batch.given, policy_mask=[mask] * 8)

    assert scored([1, 1, 0]) == expected("grpo", 0.0)
    assert [(r.response, r.tokens) for r in seen[0].rollouts] == [(text, [7, 100 + i]) for i, text in enumerate(TEXTS)]
    scored([1, 1, 1])
    assert [r.length for r in seen[2].rollouts] == [3] * 4 and seen[2].rollouts[0].response.endswith(r"\boxed{3}")


def test_prompts_with_images_are_compared_by_their_text():
    """Each row of a group has an image object of its own, as datasets decode them."""
    batch, seen = Batch(chat=True), []
    for row, prompt in enumerate(batch.given["prompts"]):
        parts = [{"type": "image", "image": object()}, {"type": "text", "text": prompt[0]["content"]}]
        batch.given["prompts"][row] = [{"role": "user", "content": parts}]
    reward = adapter(
        "grpo", arguments(), outcome=lambda **_: OUTCOMES * 2, on_step=lambda *given: seen.extend(given[1])
    )
    assert reward(**batch.given) == expected("grpo", 0.0)
    assert [group.prompt for group in seen] == ["1+1?", "again, 1+1?"]


def test_problems_are_told_apart_by_what_the_policy_saw():
    """Two rows ask the same question after other texts; two have the same prompt and another seed of their game."""
    seen = []
    reward = adapter("grpo", arguments(), on_step=lambda *given: seen.extend(given[1]))
    reward(**Batch().given, question=["1+1?"] * 8)
    reward(**Batch().given | {"prompts": ["1+1?"] * 8}, meta=[{"seed": 0}] * 4 + [{"seed": 1}] * 4)
    first, second, *games = [group.problem.id for group in seen]
    assert first != second and len({*games}) == 2


def test_the_column_of_problems_may_not_be_removed():
    problem = Problem("p", "1+1?", "2")
    reward = adapter("grpo", arguments(), problems={"p": problem})
    with pytest.raises(DiverError, match="has no column problem: add it, with remove_unused_columns=False"):
        reward(**Batch().given)
    assert reward(**Batch().given, problem=["p"] * 8) == expected("grpo", 0.0)


def environment_outcome(args):
    """The adapter of the page's example of environments."""
    section = PAGE.partition("\n## Tools and environments\n")[2].partition("\n## ")[0]
    (code,) = re.findall(r"^```python\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    given = {"args": args, "tokenizer": Tokenizer()}
    exec(code, given)
    return given["reward"]


def test_the_outcome_is_read_from_environments(recwarn):
    """TRL gives one of them for each completion; what a tool answered is no text of the response."""
    batch, seen = Batch(chat=True), []
    batch.given["completions"] = [[*said, {"role": "tool", "content": "24"}] for said in batch.given["completions"]]
    batch.given["environments"] = [SimpleNamespace(solved=bool(outcome)) for outcome in OUTCOMES * 2]
    reward = environment_outcome(arguments("diver-mix"))
    reward.on_step = lambda step, groups, metrics: seen.extend(groups)
    whole = diver.advantages(TEXTS * 2, OUTCOMES * 2, [0] * 4 + [1] * 4, "diver-mix", truncated=[False] * 8)
    assert reward(**batch.given) == whole.tolist() and batch.extra["outcome"] == OUTCOMES * 2
    assert [r.response for r in seen[0].rollouts] == TEXTS
    assert any("give `answer_ends`" in str(warning.message) for warning in recwarn)


def test_an_environment_with_unequal_prompts_is_refused():
    args = arguments("diver-mix")
    batch = Batch(chat=True)
    batch.given["environments"] = [SimpleNamespace(solved=True)] * 8
    batch.given["prompts"] = [[{"role": "user", "content": f"1+1? {i}"}] for i in range(8)]
    with pytest.raises(DiverError, match="answer 4 prompts: groups must be whole"):
        environment_outcome(args)(**batch.given)


def test_reward_functions_are_mixed_in_the_outcome():
    """By hand: r = 1.1, 0, 1.0, 0.1; the mean is 0.55, and the standard deviation sqrt(0.2525). The first function says
    what is correct, also where the sum says something else."""

    async def accuracy(completions, **_):
        return [1.0, 0.0, 1.0, 0.0] * 2

    def style(completions, **_):
        return [0.5, None, 0.0, 0.5] * 2

    args = arguments()
    batch = Batch()
    returned = adapter("grpo", args, outcome=[accuracy, style], weights=[1.0, 0.2])(**batch.given)
    np.testing.assert_allclose(returned, np.array([0.55, -0.55, 0.45, -0.45] * 2) / 0.2525**0.5)
    assert batch.extra["outcome"] == [1, 0, 1, 0] * 2 and batch.metrics["group/solve_none"] == 0
    assert batch.metrics["reward/outcome"] == 0.5 and batch.metrics["reward/shaped"] == pytest.approx(0.55)
    equal, seen = Batch(), []
    reward = adapter("diver-mix", arguments("diver-mix"), outcome=[accuracy, style], answer_ends=lambda **_: [9] * 8)
    reward.on_step = lambda step, groups, metrics: seen.extend(groups)
    reward(**equal.given)  # r = 1.5, 0, 1, 0.5: the last is half of the reward, and no response with diversity's
    assert equal.extra["outcome"] == [1, 0, 1, 0] * 2 and equal.metrics["reward/outcome"] == 0.5
    parts = [rollout.reward for rollout in seen[0].rollouts]
    assert [part.other for part in parts] == [0.5, 0, 0, 0.5] and [part.diversity > 0 for part in parts][1::2] == [0, 0]
    np.testing.assert_allclose(seen[0].advantages, (seen[0].rewards - seen[0].rewards.mean()) / seen[0].rewards.std())
    with pytest.raises(DiverError) as error:
        adapter("grpo", args, outcome=[accuracy, style], weights=[0.4, 1.0])(**Batch().given)
    told = "row 0: accuracy gives 1, and 0.4 with its weight: both must be at least method.threshold, 0.5, or neither"
    assert str(error.value).startswith(told)
    subsets = method_named("pass-at-k", k=2)
    with pytest.raises(DiverError, match="its advantages are of outcomes alone, so a further reward has no effect"):
        adapter(subsets, arguments(subsets), outcome=[accuracy, style])(**Batch().given)
    for outcome, weights, told in (
        ([accuracy], [1.0, 2.0], "outcome: 1 functions with 2 weights"),
        ([], None, "outcome: 0 functions"),
        (["a/model"], None, "outcome: 'a/model' is not a function"),
        (accuracy, [1.0, 2.0], "outcome: 1 functions with 2 weights"),
        (None, [1.0], "outcome: 0 functions with 1 weights"),
    ):
        with pytest.raises(DiverError, match=told):
            adapter("grpo", args, outcome=outcome, weights=weights)
    with pytest.raises(DiverError, match="<lambda> gives 3 rewards for 8 completions"):
        adapter("grpo", args, outcome=lambda **_: [1.0] * 3)(**Batch().given)


def test_rewards_of_another_scale_are_refused_where_lambda_is_relative_to_1():
    """Of several functions the first, whose value times its weight is 1 for a correct response; the sum may be more."""

    def ten(completions, **_):
        return [10.0, 0.0, 10.0, 0.0] * 2

    def style(completions, **_):
        return [0.5, -0.2, 0.0, 0.5] * 2

    args, told = (
        arguments("diver-mix"),
        r"row 0: the outcome is 10, and method 'diver-mix' needs outcomes from 0 \(wrong\)",
    )
    for options in ({"outcome": ten}, {"outcome": [ten, style]}, {"outcome": [ten, style], "weights": [1.0, 0.2]}):
        with pytest.raises(DiverError, match=told):
            adapter("diver-mix", args, **options)(**Batch().given)
    batch = Batch()
    adapter("diver-mix", args, outcome=[ten, style], weights=[0.1, 0.2])(**batch.given)
    assert batch.extra["outcome"] == [1, 0, 1, 0] * 2
    assert batch.metrics["reward/outcome"] == 0.5
    by_scale = adapter("grpo", arguments(), outcome=ten)(**Batch().given)
    np.testing.assert_allclose(by_scale, [1, -1, 1, -1] * 2)
    with pytest.warns(UserWarning, match="no outcome reaches method.threshold = 0.5, and the highest of 8 is 0.1"):
        adapter("diver-mix", args, outcome=lambda **_: [0.1, 0.0] * 4)(**Batch().given)


@pytest.mark.parametrize("format_gives", [1.0, 0.0])
def test_a_further_function_never_says_what_is_correct(format_gives):
    """The first function is not for the second prompt, and a format is for all: no outcome, and the advantage 0."""

    def accuracy(completions, **_):
        return [1.0, 0.0, 0.0, 1.0] + [None] * 4

    def layout(completions, **_):
        return [format_gives, 0.0, 0.0, format_gives] * 2

    batch = Batch()
    with pytest.warns(UserWarning, match="accuracy gives None where layout gives a number: only the first function"):
        returned = adapter("grpo", arguments(), outcome=[accuracy, layout])(**batch.given)
    np.testing.assert_allclose(returned, [1, -1, -1, 1, 0, 0, 0, 0])
    assert batch.metrics["reward/outcome"] == 0.5 and np.isnan(batch.extra["outcome"][4:]).all()


def test_functions_that_are_not_for_the_same_prompts_are_no_reason_to_warn():
    """A further function that is None where the first is says nothing. One that is None elsewhere adds nothing."""

    def accuracy(completions, **_):
        return [1.0, 0.0, 0.0, 1.0] + [None] * 4

    def style(completions, **_):
        return [None] * 8

    with warnings.catch_warnings(action="error"):
        returned = adapter("grpo", arguments(), outcome=[accuracy, style])(**Batch().given)
    np.testing.assert_allclose(returned, [1, -1, -1, 1, 0, 0, 0, 0])


def test_an_outcome_that_is_none_everywhere_is_told():
    with pytest.warns(UserWarning, match="no function of `outcome` gives a number for this batch"):
        returned = adapter("grpo", arguments(), outcome=lambda **_: [None] * 8)(**Batch().given)
    assert returned == [0.0] * 8


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (None, "None"),
        ({"reward": 1.0}, "{'reward': 1.0}"),
        ([{"reward": 1.0}] * 8, r"\[{'reward': 1.0}, "),
        (["1"] * 8, r"\['1', '1', "),
        (dict.fromkeys(range(8), 1.0), "{0: 1.0, "),
        (1.0, "1.0"),
    ],
)
def test_values_that_are_no_rewards_name_their_function(values, shown):
    def judge(completions, **_):
        return values

    with pytest.raises(DiverError, match=f"judge returns {shown}.*: a reward function returns a list with a number"):
        adapter("grpo", arguments(), outcome=judge)(**Batch().given)


@pytest.mark.parametrize(
    "kind", [tuple, np.array, lambda values: (v for v in values), lambda values: [np.float32(v) for v in values]]
)
def test_values_of_another_kind_are_rewards(kind):
    returned = adapter("grpo", arguments(), outcome=lambda **_: kind([0, True, True, 0] * 2))(**Batch().given)
    np.testing.assert_allclose(returned, [-1, 1, 1, -1] * 2)


def test_asynchronous_functions_share_one_loop_and_run_together():
    """Each waits for the other, and for a lock that the first call made: one loop for all calls, or neither ends."""
    loops, arrived = [], []

    async def both(name):
        loops.append(asyncio.get_running_loop())
        arrived.append(name)
        for _ in range(1000):  # of another loop, or one after another, the other never comes
            if len(arrived) % 2 == 0:
                return [0.0, 1.0, 1.0, 0.0] * 2
            await asyncio.sleep(0.001)
        raise AssertionError("the other function does not run")

    async def one(completions, **_):
        return await both("one")

    async def other(completions, **_):
        return await both("other")

    reward = adapter("grpo", arguments(), outcome=[one, other], weights=[1.0, 0.0])
    for _ in range(2):
        np.testing.assert_allclose(reward(**Batch().given), [-1, 1, 1, -1] * 2)
    assert len(loops) == 4 and all(loop is loops[0] and loop.is_running() for loop in loops)


def test_an_asynchronous_function_in_a_notebook():
    """Its event loop runs in the thread that calls TRL."""

    async def judge(completions, **_):
        await asyncio.sleep(0)
        return [0.0, 1.0, 1.0, 0.0] * 2

    async def cell():
        return adapter("grpo", arguments(), outcome=judge)(**Batch().given)

    np.testing.assert_allclose(asyncio.run(cell()), [-1, 1, 1, -1] * 2)


def test_a_reward_function_named_in_a_file(monkeypatch, tmp_path):
    """As Axolotl finds it; its settings come from the environment, and the rest from the trainer that calls it."""
    trainer = Trainer([lazy.reward], arguments("diver-mix"))
    for environment, told in (
        ({}, "DIVER_METHOD, DIVER_RECIPE: neither is set; set DIVER_METHOD to the name of a method"),
        ({"DIVER_METHOD": "grpo", "DIVER_RECIPE": "my.toml"}, "both are set"),
        ({"DIVER_METHOD": "dr-grpo"}, "TRL is not configured for method 'dr-grpo'"),
        ({"DIVER_METHOD": "divermix"}, "did you mean 'diver-mix'"),
    ):
        lazy.adapter.cache_clear()
        monkeypatch.delenv("DIVER_METHOD", raising=False)
        monkeypatch.delenv("DIVER_RECIPE", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        trainer.args.epsilon = 0.3 if environment.get("DIVER_METHOD") == "dr-grpo" else 0.2
        with pytest.raises(DiverError, match=told):
            trainer.call()
    monkeypatch.setenv("DIVER_METHOD", "diver-mix")
    with pytest.raises(DiverError, match="is called by TRL's GRPOTrainer only"):
        lazy.reward(**Batch().given)
    assert trainer.call() == expected("diver-mix", 0.0)
    lazy.adapter.cache_clear()
    monkeypatch.delenv("DIVER_METHOD")
    (tmp_path / "my.toml").write_text('[method]\nname = "pass-at-k"\nk = 2\n[data]\nverifier = "math"\n')
    monkeypatch.setenv("DIVER_RECIPE", str(tmp_path / "my.toml"))
    trainer.args = arguments("pass-at-k")
    assert trainer.call() == expected(method_named("pass-at-k", k=2), 0.0)
    trainer.epsilon_low = 0.3  # of the trainer: its GRPOConfig was changed after it was created
    with pytest.raises(DiverError, match="the trainer has epsilon=0.3: correct its GRPOConfig"):
        trainer.call()
    del trainer.epsilon_low
    trainer.reward_funcs.append(brevity)
    lazy.adapter.cache_clear()
    with pytest.raises(DiverError, match="reward functions brevity: TRL would add"):
        trainer.call()
    lazy.adapter.cache_clear()


def test_what_the_seam_cannot_give_is_refused():
    with pytest.raises(DiverError, match="a selection drops rollouts"):
        config(method_named("diver-mix", selection={"keep": "most"}))
    for name in ("clip-cov", "high-entropy"):
        with pytest.raises(DiverError, match=f"method.loss.name = '{name}': the TRL adapter does not support this"):
            adapter(name, arguments())
    with pytest.raises(DiverError, match="method 'nsr': its advantages do not sum to 0 in a group, and TRL subtracts"):
        config("nsr")
    with pytest.raises(DiverError, match="method 'ucpo' needs logprobs, which TRL does not provide"):
        config("ucpo")
    with pytest.raises(DiverError, match="method.k is 4 with num_generations = 4: k must be below G"):
        adapter("pass-at-k", arguments("pass-at-k"))


def test_an_entropy_bonus_of_another_size_is_refused():
    """TRL's bonus is the mean entropy of a token; ours has the weights of the loss, here those of a sum over tokens."""
    if "entropy_coef" not in config("grpo"):
        pytest.skip("the TRL installed here has no entropy_coef")
    with pytest.raises(DiverError, match="method.loss.entropy_coef = 0.01: TRL adds the mean entropy of the tokens"):
        config(method_named("grpo", loss={"aggregation": "token-sum", "entropy_coef": 0.01}))
    assert config(method_named("grpo", loss={"entropy_coef": 0.01})).get("entropy_coef", 0.01) == 0.01


def test_trl_knows_every_key_of_the_configuration():
    trl = pytest.importorskip("trl")
    for name in (name for name in METHODS if "TRL" not in refusals(method_named(name))):
        args = trl.GRPOConfig("out", use_cpu=True, bf16=False, report_to="none", **config(name))
        assert adapter(name, args).method.name == name
        assert not getattr(args, "use_bias_correction_kl", False)  # the divergence as it is, not times its ratio
        loss = method_named(name).loss
        if name == "sapo":
            temperatures = args.sapo_temperature_pos, args.sapo_temperature_neg
            assert (args.loss_type, *temperatures) == ("sapo", loss.tau_positive, loss.tau_negative)
        elif name == "cispo":  # no lower bound, and the upper one is of the ratio itself
            assert (args.loss_type, args.epsilon_high) == ("cispo", 1 + loss.clip_high)
        else:
            assert (args.epsilon, args.epsilon_high) == (loss.clip_low, loss.clip_high)
        assert args.importance_sampling_level == ("sequence" if name == "gspo" else "token")

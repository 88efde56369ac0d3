"""TRL's own loop over calls of tools: a policy of random weights walks, a tool or an environment answers."""

import warnings
from functools import partial

import pytest

pytest.importorskip("trl", reason="in the environment of `make test-trl` only")

import numpy as np
import torch
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import diver
from diver.core.turns import Action, turns_of
from diver.integrations.trl import DiverTrainer, GroupAdvantage, GroupOutcome, config
from diver.integrations.trl.objective import installed
from diver.methods import method_named
from diver.sample.base import is_truncated

pytestmark = pytest.mark.skipif(installed() < (1, 16), reason="tools of TRL 1.16")

POLICY = ("<eos>", "north", "south", "hm")
"""What the policy writes: a direction is a call of the tool."""
ENVIRONMENT = ("<pad>", "<unk>", "<user>", "<tool>", "<assistant>", "goal", "wall", "clear")
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] or '' }} "
    "{% for c in m.tool_calls or [] %}{{ c.function.name }} {{ c.function.arguments }} {% endfor %}"
    "{% if m['role'] == 'assistant' %}<eos> {% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
CALL = {"type": "function", "function": {"name": "walk", "arguments": {"way": "{way}"}}}
PARSED = {
    "defaults": {"role": "assistant"},
    "start_anchor": "<assistant>",
    "fields": {
        "tool_calls": {
            "open_pattern": "(?P<way>north|south)",
            "close_pattern": r"\s|$",
            "repeats": True,
            "content": "text",
            "transform": CALL,
        },
        "content": {"close_pattern": r"<eos>\s*|$", "content": "text"},
    },
}
ROWS, G, LIMIT = 16, 8, 24
OPTIONS = {
    "num_generations": G,
    "per_device_train_batch_size": ROWS,
    "gradient_accumulation_steps": 1,
    "max_completion_length": LIMIT,
    "max_steps": 1,
    "generation_kwargs": {"suppress_tokens": [*range(len(POLICY), len(POLICY) + len(ENVIRONMENT))]},
    "log_completions": True,
    "num_completions_to_print": 0,
    "save_strategy": "no",
    "report_to": "none",
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
    "disable_tqdm": True,
}
METHODS = [*map(method_named, ("grpo", "diver-mix", "diver-actions"))]


def policy():
    words = [*POLICY, *ENVIRONMENT]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, padding_side="left", **special)
    tokenizer.chat_template, tokenizer.response_template = TEMPLATE, PARSED
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    ids = {"pad_token_id": words.index("<pad>"), "eos_token_id": 0}
    return tokenizer, LlamaForCausalLM(LlamaConfig(vocab_size=len(words), max_position_embeddings=256, **sizes, **ids))


def walk(way: str) -> str:
    """Walk.

    Args:
        way: north or south.
    """
    return "clear" if way == "south" else "wall"


class Walk:
    """Solved by a step to the south."""

    def reset(self, **columns):
        self.solved = False

    def walk(self, way: str) -> str:
        """Walk.

        Args:
            way: north or south.
        """
        self.solved = self.solved or way == "south"
        return walk(way)


def actions_of(completion):
    return [action for turn in turns_of(completion) for action in turn.actions]


def solved_by_calls(completions, **_):
    south = Action("walk", '{"way": "south"}')
    return [float(south in actions_of(completion)) for completion in completions]


def solved_environments(environments, **_):
    return [float(environment.solved) for environment in environments]


SOURCES = {
    "tools": ({"tools": [walk]}, solved_by_calls),
    "environment": ({"environment_factory": Walk}, solved_environments),
}


def rows():
    return Dataset.from_list([{"prompt": [{"role": "user", "content": text}]} for text in ("goal", "goal wall")])


class Recorded(GroupAdvantage):
    def __call__(self, prompts, completions, completion_ids, **given):
        self.found = super().__call__(prompts, completions, completion_ids, **given)
        self.completions, self.ids = [[*c] for c in completions], completion_ids
        return self.found


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("method", METHODS, ids=["grpo", "texts", "actions"])
def test_the_advantages_are_those_of_the_drop_in_and_no_token_of_a_tool_is_trained_on(method, source, tmp_path):
    (given, outcome), outcomes = SOURCES[source], []

    def told(**columns):
        outcomes.extend(outcome(**columns))
        return outcomes

    tokenizer, model = policy()
    args = trl.GRPOConfig(str(tmp_path), **config(method), **OPTIONS)
    reward = Recorded(method, args, tokenizer, outcome=told, answer_ends=lambda **_: [None] * ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = trl.GRPOTrainer(model, reward, args=args, train_dataset=rows(), processing_class=tokenizer, **given)
    scored, trained, states = [], [], []
    score, compute = trainer._generate_and_score_completions, trainer._compute_loss
    trainer._generate_and_score_completions = lambda inputs: scored.append(score(inputs)) or scored[-1]

    def recorded(model, inputs):
        if torch.is_grad_enabled():  # not where the adapter compares losses
            trained.append(inputs)
        return compute(model, inputs)

    trainer._compute_loss = recorded

    def keep(module, inputs, state):
        if state.requires_grad:
            state.retain_grad()
            states.append(state)

    model.model.norm.register_forward_hook(keep)
    trainer.train()

    (whole,) = scored
    masks = [mask[: len(ids)].tolist() for mask, ids in zip(whole["tool_mask"], reward.ids, strict=True)]
    known = {
        "tokens": reward.ids,
        "masks": masks,
        "truncated": [is_truncated(ids, LIMIT, {0}) for ids in reward.ids],
        "answer_ends": [None] * ROWS,
        "decode": partial(tokenizer.decode, skip_special_tokens=True),
    }
    limited = method.limited(LIMIT)
    expected = diver.advantages(reward.completions, outcomes, [i // G for i in range(ROWS)], limited, **known)
    assert reward.found == expected.tolist() and (len({*expected}) > 2 or method.name == "grpo")
    np.testing.assert_allclose(whole["advantages"], expected, atol=1e-6)
    (log,) = (row for row in trainer.state.log_history if "reward/outcome" in row)
    assert "completions/mean_length" in log and "response/length_mean" not in log  # TRL alone has the mask

    (batch,), (state,) = trained, states  # in another order: TRL shuffles what it has scored
    mask = (batch["completion_mask"] * batch["tool_mask"]).bool()
    written = batch["completion_ids"] < len(POLICY)
    assert (mask == written & batch["completion_mask"].bool()).all()
    assert 0 < mask.sum() < batch["completion_mask"].sum()
    gradient = state.grad[:, -mask.shape[1] - 1 : -1].abs().sum(-1)  # of the states that each token is predicted from
    assert ((gradient > 0) == mask & (batch["advantages"] != 0)[:, None]).all()

    read = [rollout.actions for group in diver.read(tmp_path / "completions") for rollout in group.rollouts]
    assert read == [(*actions_of(completion),) for completion in reward.completions]


def test_the_trainer_has_an_advantage_for_each_turn(tmp_path):
    """gigpo, by `diver.advantages` on the same messages, tokens and masks."""
    method, given, groups = method_named("gigpo", loss={"kl_coef": 0.0}), {}, []

    def told(**columns):
        given.update(columns, outcomes=solved_by_calls(**columns))
        given["completions"] = [[*completion] for completion in columns["completions"]]
        return given["outcomes"]

    tokenizer, model = policy()
    args = trl.GRPOConfig(str(tmp_path), **DiverTrainer.config(method), **OPTIONS)
    reward = GroupOutcome(method, args, tokenizer, outcome=told, on_step=lambda step, found, _: groups.extend(found))
    trainer = DiverTrainer(model, reward, args=args, train_dataset=rows(), processing_class=tokenizer, tools=[walk])
    compute, trained = trainer._compute_loss, []
    trainer._compute_loss = lambda model, inputs: trained.append(inputs) or compute(model, inputs)
    trainer.train()

    sequences = [rollout.sequence for group in groups for rollout in group.rollouts]
    assert [ids.tolist() for ids, _ in sequences] == [[*ids] for ids in given["completion_ids"]]
    assert all(((ids < len(POLICY)) == mask).all() for ids, mask in sequences)
    known = {"tokens": [ids.tolist() for ids, _ in sequences], "masks": [mask.tolist() for _, mask in sequences]}
    indices = [i // G for i in range(ROWS)]
    expected = diver.advantages(given["completions"], given["outcomes"], indices, method, **known)
    (batch,) = trained
    for found, mask, wanted, (_, own) in zip(batch["advantages"], batch["mask"], expected, sequences, strict=True):
        assert mask.sum() == own.sum()
        np.testing.assert_allclose(found[mask], wanted[own], atol=1e-6)
    assert len({float(a) for row in expected for a in row}) > 4

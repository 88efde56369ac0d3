"""The gradient that stock TRL makes of `config(...)`, beside the one that the method means. `make test-trl`,
`make test-trl-old`."""

import pytest

pytest.importorskip("trl", reason="in the environment of `make test-trl` only")

import torch
from datasets import Dataset
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from diver.core.types import DiverError
from diver.integrations.trl import GroupAdvantage, config
from diver.integrations.trl.objective import installed
from diver.losses.base import Tokens, row_weights
from diver.methods import method_named
from diver.tasks.testbeds import policy_folder

LENGTHS = torch.tensor([2, 16, 5, 9] * 4)  # as many tokens in each step: TRL divides each by the mean of a generation
ADVANTAGES = torch.tensor([1.0, -1.0, 0.5, -0.5] * 4)
PROMPT = 6
STARTS = (0, 4, 8, 12)  # of the micro-batches of a generation, four rows each
WEIGHTS = {
    # of a row's tokens in the loss of an optimizer step: by the docstring of `diver.losses.base.row_weights`
    "token-mean": lambda lengths: torch.ones(len(lengths)) / lengths.sum(),
    "sequence-mean": lambda lengths: 1 / (len(lengths) * lengths),
    "token-sum": lambda lengths: torch.ones(len(lengths)) / len(lengths),
}


def trainer(folder, method, accumulation):
    args = GRPOConfig(
        str(folder),
        num_generations=4,
        max_completion_length=16,
        per_device_train_batch_size=4,
        steps_per_generation=4,
        gradient_accumulation_steps=accumulation,
        use_cpu=True,
        report_to="none",
        bf16=False,
        **config(method),
    )
    tokenizer = AutoTokenizer.from_pretrained(policy_folder())
    reward = GroupAdvantage(method, args, tokenizer)
    rows = Dataset.from_list([{"prompt": "1 2 3", "answer": "6"}] * 16)
    made = GRPOTrainer(str(policy_folder()), reward, args=args, train_dataset=rows, processing_class=tokenizer)
    made.current_gradient_accumulation_steps = accumulation
    made.model.train()
    return made


def gradient(model, losses):
    model.zero_grad()
    for loss in losses:
        loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def trls(made, ids, mask, old=None):
    """TRL's loss of each micro-batch of a generation; `old` are the log-probs of the sampler,
    without them the ratio is 1."""
    for i in STARTS:
        rows = slice(i, i + 4)
        given = {
            "prompt_ids": ids[rows, :PROMPT],
            "completion_ids": ids[rows, PROMPT:],
            "num_items_in_batch": mask.sum(),
        }
        given |= {"prompt_mask": torch.ones_like(ids[rows, :PROMPT]), "completion_mask": mask[rows]}
        given |= {"advantages": ADVANTAGES[rows]} | ({} if old is None else {"old_per_token_logps": old[rows]})
        yield made._compute_loss(made.model, given)


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("aggregation", WEIGHTS)
def test_trls_gradient_is_that_of_the_method(tmp_path, aggregation, accumulation):
    """Of four optimizer steps a generation, and of one; summed over the steps, whose policy is the same here."""
    method = method_named("dr-grpo", loss={"aggregation": aggregation})
    if installed() < (1, 10) and (aggregation == "token-sum" or (aggregation, accumulation) == ("token-mean", 1)):
        pytest.skip("refused, by `config` or before the first update")
    made = trainer(tmp_path, method, accumulation)
    ids = torch.randint(5, 30, (16, PROMPT + 16), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(16)[None] < LENGTHS[:, None]).int()
    ends = [(i, i + 4 * accumulation) for i in range(0, 16, 4 * accumulation)]

    def ours():
        for first, last in ends:
            rows = slice(first, last)
            logits = made.model(input_ids=ids[rows]).logits.float()[:, PROMPT - 1 : -1] / made.temperature
            chosen = logits.log_softmax(-1).gather(-1, ids[rows, PROMPT:, None])[..., 0]
            each = -(chosen * ADVANTAGES[rows, None] * mask[rows]).sum(1)  # the ratio is 1
            yield (each * WEIGHTS[aggregation](LENGTHS[rows])).sum()

    got, wanted = gradient(made.model, trls(made, ids, mask)), gradient(made.model, ours())
    torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(installed() < (1, 10), reason="an older one has another loss of this name")
def test_cispos_gradient_where_ratios_have_left_the_bound(tmp_path):
    """A third of the ratios is above 1.2 = 1 + clip_high, and a third far below 1, where TRL has no bound either:
    -min(ratio, 1.2) A log pi, the ratio a weight without gradient, a mean over the tokens of the step."""
    method = method_named("cispo", loss={"clip_high": 0.2})
    made = trainer(tmp_path, method, 4)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 30, (16, PROMPT + 16), generator=generator)
    mask = (torch.arange(16)[None] < LENGTHS[:, None]).int()
    logits = made.model(input_ids=ids).logits.float()[:, PROMPT - 1 : -1] / made.temperature
    chosen = logits.log_softmax(-1).gather(-1, ids[:, PROMPT:, None])[..., 0]
    old = chosen.detach() + torch.tensor([-0.5, 0.0, 0.9])[torch.randint(0, 3, chosen.shape, generator=generator)]
    weight = (chosen.detach() - old).exp().clamp(max=1.2)
    wanted = gradient(made.model, [-(weight * chosen * ADVANTAGES[:, None] * mask).sum() / LENGTHS.sum()])

    torch.testing.assert_close(gradient(made.model, trls(made, ids, mask, old)), wanted, rtol=1e-3, atol=1e-5)


@pytest.mark.skipif(installed() < (1, 10), reason="an older one has no such loss")
@pytest.mark.parametrize("loss", [{}, {"tau_positive": 0.5, "tau_negative": 3.0}])
def test_sapo_is_trls(tmp_path, loss):
    """Its value and gradient over the four micro-batches of a step, by our loss of the same log-probs."""
    method = method_named("sapo", loss=loss)
    made = trainer(tmp_path, method, 4)
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(5, 30, (16, PROMPT + 16), generator=generator)
    mask = (torch.arange(16)[None] < LENGTHS[:, None]).int()
    logits = made.model(input_ids=ids).logits.float()[:, PROMPT - 1 : -1] / made.temperature
    chosen = logits.log_softmax(-1).gather(-1, ids[:, PROMPT:, None])[..., 0]
    old = chosen.detach() + torch.tensor([-0.5, 0.0, 0.9])[torch.randint(0, 3, chosen.shape, generator=generator)]
    values, _ = method.loss.forward(Tokens(chosen, old, ADVANTAGES[:, None]))
    ours = (values * mask * row_weights(LENGTHS, method.loss.aggregation)[:, None]).sum()
    theirs = list(trls(made, ids, mask, old))
    assert float(sum(theirs).detach()) == pytest.approx(float(ours.detach()), abs=1e-6)
    torch.testing.assert_close(gradient(made.model, theirs), gradient(made.model, [ours]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("aggregation", ["token-mean", "token-sum"])
def test_a_sapo_that_trl_does_not_have_is_refused(aggregation):
    with pytest.raises(DiverError, match="TRL has sequence-mean for the loss 'sapo'"):
        config(method_named("sapo", loss={"aggregation": aggregation}))


@pytest.mark.parametrize(
    ("loss", "told"),
    [
        ({"clip_low": 0.5}, "clip_low = 0.5: TRL's cispo has no lower bound; set it to 1"),
        ({"aggregation": "sequence-mean"}, "TRL has token-mean for the loss 'cispo'"),
    ],
)
def test_a_cispo_that_trl_does_not_have_is_refused(loss, told):
    with pytest.raises(DiverError, match=told):
        config(method_named("cispo", loss=loss))

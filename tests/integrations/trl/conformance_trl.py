"""TRL's side of docs/conformance.md: trainers on the bundled policy, and the pairs with our losses and advantages.

By itself (FOLDER), under torchrun, it trains on several processes and writes what each did to FOLDER.
"""

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import conformance as c
import torch
from accelerate import PartialState
from datasets import Dataset
from peft import LoraConfig
from torch import Tensor
from transformers import AutoTokenizer
from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

from diver.integrations.trl import config
from diver.integrations.trl.objective import LOSS_TYPES
from diver.losses import CispoLoss, ClipLoss, GmpoLoss, GspoLoss, PolicyLoss, SapoLoss
from diver.methods import method_named
from diver.tasks.testbeds import policy_folder

HARNESS = c.ROOT / "tests" / "integrations" / "trl"  # configurations.py and updates.py compute a run again
if str(HARNESS) not in sys.path:
    sys.path.append(str(HARNESS))


def given_rewards(prompts: list[Any], **_: Any) -> list[float]:
    return list(c.BATCH.rewards)


def trainer(options: dict[str, Any], of: Any = GRPOTrainer, settings: Any = GRPOConfig) -> Any:
    """A trainer of the batch: 40 responses a generation, whose optimizer step has four micro-batches."""
    args = settings(
        tempfile.mkdtemp(),
        num_generations=c.SIZE,
        max_completion_length=c.WIDTH,
        per_device_train_batch_size=len(c.BATCH.mask) // c.PARTS,
        steps_per_generation=c.PARTS,
        gradient_accumulation_steps=c.PARTS,
        use_cpu=True,
        report_to="none",
        bf16=False,
        **options,
    )
    rows = Dataset.from_list([{"prompt": "1 2 3"}] * len(c.BATCH.mask))
    tokenizer = AutoTokenizer.from_pretrained(policy_folder())
    made = of(str(policy_folder()), given_rewards, args=args, train_dataset=rows, processing_class=tokenizer)
    made.current_gradient_accumulation_steps = c.PARTS
    made.model.train()
    return made


def loss_of(options: dict[str, Any], of: Any = GRPOTrainer, settings: Any = GRPOConfig) -> c.Found:
    """The losses that the trainer's `_compute_loss` gives for the micro-batches; the log-probs are ours."""
    made = trainer(options, of, settings)

    def of_part(part: c.Batch) -> Tensor:
        made._get_per_token_logps_and_entropies = lambda *_, **__: (part.logprobs, part.entropy, None)
        ids = torch.zeros(part.mask.shape, dtype=torch.long)
        inputs = {"prompt_ids": ids[:, :1], "prompt_mask": torch.ones_like(ids[:, :1]), "completion_ids": ids}
        inputs |= {"completion_mask": part.mask.int(), "num_items_in_batch": c.BATCH.mask.sum()}
        inputs |= {"advantages": part.advantages, "old_per_token_logps": part.old_logprobs}
        inputs |= {"ref_per_token_logps": part.reference}
        return made._compute_loss(made.model, inputs)

    return c.summed(of_part)


def advantages(options: dict[str, Any], of: Any = GRPOTrainer, settings: Any = GRPOConfig) -> c.Found:
    """The advantages of a generation of the trainer, whose rewards are those of the batch."""
    made = trainer(options, of, settings)
    inputs = [{"prompt": "1 2 3"}] * len(c.BATCH.mask)
    return c.Found(None, made._generate_and_score_completions(inputs)["advantages"].double())


def gmpo_loss() -> c.Found:
    from trl.experimental.gmpo import GMPOConfig, GMPOTrainer

    return loss_of({"beta": 0.0, "epsilon": 0.4}, GMPOTrainer, GMPOConfig)


def as_configured(name: str, setting: str, loss: PolicyLoss) -> c.Pair:
    """Our loss, and TRL's with the options that the adapter gives it for ours."""
    method = dataclasses.replace(method_named("dr-grpo"), loss=loss)
    return c.loss_pair(name, setting, loss, lambda: loss_of(config(method)))


def pairs() -> Iterator[c.Pair]:
    """TRL's losses and advantages of our names."""
    plain = config("clip-higher")
    for aggregation, kind in LOSS_TYPES.items():
        level = ", importance_sampling_level=token" if kind == "luspo" else ""
        loss = ClipLoss(aggregation=aggregation)  # type: ignore[arg-type]
        yield as_configured("clip", f"loss_type={kind}{level}", loss)
    yield from c.micro_batch_pairs(lambda kind: partial(loss_of, {**plain, "loss_type": kind}))
    yield c.dual_clip("loss_type=dapo, delta=3", "delta", partial(loss_of, {**plain, "delta": c.C}))
    yield as_configured("cispo", "loss_type=cispo, epsilon_high=5", CispoLoss())
    yield as_configured("gspo", "loss_type=grpo, importance_sampling_level=sequence", GspoLoss())
    yield as_configured("sapo", "loss_type=sapo", SapoLoss())
    yield c.loss_pair("gmpo", "GMPOTrainer, epsilon=0.4", GmpoLoss(), gmpo_loss)
    yield c.loss_pair(
        "entropy-bonus",
        "loss_type=dapo, entropy_coef=0.01",
        ClipLoss(entropy_coef=0.01),
        partial(loss_of, {**plain, "entropy_coef": 0.01}),
        "The mean entropy is over the tokens of each micro-batch, where ours has the weights of the loss, here over "
        "all tokens of the mini-batch.",
        entropy_weights=c.of_micro_batches("token-mean"),
    )
    yield as_configured("kl", "loss_type=dapo, beta=0.1", c.KL)
    corrected = {**plain, "beta": c.KL.kl_coef, "use_bias_correction_kl": True}
    yield c.loss_pair(
        "kl",
        "loss_type=dapo, beta=0.1, use_bias_correction_kl=True",
        c.KL,
        partial(loss_of, corrected),
        "The divergence of a token is multiplied by the ratio of the policy to the sampler.",
        kl=c.k3_of_old,
    )

    for scale in ("group", "batch"):
        theirs = partial(advantages, {"scale_rewards": scale})
        yield c.grpo_pair(f"scale_rewards={scale}", 1e-4, theirs, of_batch=scale == "batch")
    yield c.dr_grpo_pair("scale_rewards=none", partial(advantages, {"scale_rewards": "none"}))
    rloo = partial(advantages, {"normalize_advantages": False, "beta": 0.0}, RLOOTrainer, RLOOConfig)
    yield c.rloo_pair("RLOOTrainer, normalize_advantages=False", rloo)


# Runs.


KL = method_named("grpo", loss={"kl_coef": c.KL.kl_coef})
OF_GENERATION = (
    "A step is divided by the mean number of tokens of the steps of its generation, where ours is divided by its own."
)


def checked(check: Callable[..., None], method: Any, **changed: Any) -> None:
    """The check of a run with its method, which would show that the KL term is missing."""
    check(method, **changed)
    if method.loss.kl_coef:
        without = dataclasses.replace(method, loss=dataclasses.replace(method.loss, kl_coef=0.0))
        if c.holds(partial(check, without)):
            raise ValueError("the policy has not left the reference far enough to show a wrong KL term")


def of_updates(processes: list[Any], method: Any, about: dict[str, Any] | None = None) -> None:
    import updates as u

    for generations in processes:
        assert u.check_updates(generations, method, **(about or {})).signal


def stock(method: Any, formula: str = "by_std", **options: Any) -> tuple[int, Callable[..., Any]]:
    """A run of GRPOTrainer with `GroupAdvantage`: its optimizer steps, and the check of them."""
    import configurations as f

    folder = Path(tempfile.mkdtemp())
    f.save_policy(folder)
    record, _ = f.train(folder, folder / "out", method, **options)
    expected, lora = f.of_outcomes(getattr(f, formula)), options.get("lora", False)

    def check(method: Any, **changed: Any) -> None:
        _, signal = f.check_steps(folder, record, method, expected, lora=lora, **changed)
        assert signal

    return len(record.steps), partial(checked, check, method)


def ours(method: Any, about: dict[str, Any] | None = None, **options: Any) -> tuple[int, Callable[..., Any]]:
    """A run of `DiverTrainer`, likewise; `about` is for the check."""
    import updates as u

    record = u.made(tempfile.mkdtemp(), method, **options)
    record.trainer.train()
    steps = sum(len(generation.gradients) for generation in record.generations)
    return steps, partial(checked, lambda method: of_updates([record.generations], method, about), method)


@cache
def of_two_processes() -> Path:
    folder = Path(tempfile.mkdtemp())
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    paths = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}  # scripts/ has the module `conformance`
    subprocess.run([*launch, __file__, str(folder)], check=True, capture_output=True, timeout=1800, env=paths)
    return folder


def parts_of(name: str) -> list[Any]:
    return [torch.load(of_two_processes() / f"{name}_{i}.pt", weights_only=False) for i in range(2)]


def stock_on_two() -> tuple[int, Callable[..., Any]]:
    import configurations as f

    folder, record = of_two_processes() / "policy_0", f.of_processes(parts_of("stock"))
    check = partial(f.check_steps, folder, record, expected=f.of_outcomes(f.by_std))
    return len(record.steps), partial(checked, lambda method: check(method=method), KL)


def ours_on_two() -> tuple[int, Callable[..., Any]]:
    both = parts_of("ours")
    steps = sum(len(generation.gradients) for generation in both[0])
    return steps, partial(checked, lambda method: of_updates(both, method), KL)


def on_processes(folder: Path) -> None:
    """Train with either trainer as one of several processes."""
    import configurations as f
    import updates as u

    index = int(os.environ["RANK"])
    policy = folder / f"policy_{index}"
    f.save_policy(policy)
    batch = {"per_device_train_batch_size": 4, "max_steps": 3}
    record, _ = f.train(policy, folder / "stock", KL, **batch)
    fields = ("temperature", "gradient_accumulation_steps", "steps_per_generation")
    args = SimpleNamespace(**{name: getattr(record.trainer.args, name) for name in fields})
    kept = SimpleNamespace(generations=record.generations, steps=record.steps, trainer=SimpleNamespace(args=args))
    torch.save(kept, folder / f"stock_{index}.pt")
    made = u.made(folder / "ours", KL, per_device_train_batch_size=2)
    made.trainer.train()
    torch.save(made.generations, folder / f"ours_{index}.pt")
    assert PartialState().num_processes == 2
    PartialState().destroy_process_group()


def runs() -> Iterator[c.Run]:
    """Real runs, each of whose optimizer steps is computed again from a copy of the policy."""
    import configurations as f
    import updates as u

    grpo, sequence = method_named("grpo"), method_named("grpo", loss={"aggregation": "sequence-mean"})
    # Chosen after a look at 4, 16, 32, 64 and 128: at 4 the check hardly fails without the KL term, and at 128 the run
    # diverges (gradients of 44), and the two trainers differ by 1.7e-5 of the largest.
    lora = LoraConfig(r=2, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    plain, own = "GRPOTrainer", "DiverTrainer"
    masked = method_named("dr-grpo", loss={"aggregation": "sequence-mean"})

    def dense(completion_ids: Any, **_: Any) -> list[float]:
        return list(f.dense(completion_ids))

    yield c.Run("KL", plain, "beta=0.1", partial(stock, KL, **f.TWO_PARTS, max_steps=3))
    yield c.Run("KL", own, "beta=0.1", partial(ours, KL))
    steps = "loss_type={}, steps_per_generation=2"
    yield c.Run("steps", plain, steps.format("grpo"), partial(stock, sequence, **f.TWO_STEPS))
    two = partial(stock, grpo, **f.TWO_STEPS)
    yield c.Run("steps", plain, steps.format("dapo"), two, OF_GENERATION, {"of_generation": True})
    yield c.Run("steps", own, "steps_per_generation=4, accumulation 2", partial(ours, grpo))
    yield c.Run(
        "dense", plain, "scale_rewards=none", partial(stock, method_named("dr-grpo"), "mean_only", outcome=f.dense)
    )
    yield c.Run("dense", own, "method grpo", partial(ours, grpo, outcome=dense))
    yield c.Run(
        "masked",
        plain,
        "rollout_func with env_mask",
        partial(stock, masked, "mean_only", rollout_func=f.masked_in(f.G)),
    )
    yield c.Run(
        "masked",
        own,
        "rollout_func with env_mask",
        partial(ours, sequence, outcome=dense, rollout_func=f.masked_in(u.G)),
    )
    yield c.Run("processes", plain, "beta=0.1", stock_on_two)
    yield c.Run("processes", own, "beta=0.1", ours_on_two)
    yield c.Run("LoRA", plain, "beta=0.1, lora_r=2, lora_alpha=4", partial(stock, KL, lora=True, max_steps=3))
    yield c.Run("LoRA", own, "beta=0.1, lora_r=2, lora_alpha=16", partial(ours, KL, {"lora": lora}, peft_config=lora))


if __name__ == "__main__":
    torch.set_num_threads(1)
    on_processes(Path(sys.argv[1]))

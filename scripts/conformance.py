"""docs/conformance.md: our losses and advantages beside those of TRL, verl and ms-swift, on one batch.

    make conformance                                               # the pinned releases, in their two environments
    .venv-trainers/bin/python scripts/conformance.py               # TRL and verl, in the releases that are installed
    .venv-engines/bin/python scripts/conformance.py --trainers ms-swift

A row compares one setting of a trainer with ours: the value of the loss and its gradient with respect to each log-prob,
or the advantages. It is equal to 1e-6, or it names the term that differs. Such a sentence is tested: our computation
with the named change has to equal the trainer's to 1e-6. The command prints the rows that changed since it last ran,
and ends with status 1 where a difference has no explanation that holds. To compare with a newer release, install it in
the environment and run the command again.

The trainers' own code computes their side: `_compute_loss` and the advantages of a TRL trainer on the bundled policy,
the functions of `verl.trainer.ppo.core_algos`, and the loss and advantages of ms-swift's GRPOTrainer. A loss that runs
a model is given log-probs in its place.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

import diver
from diver.core.tables import markdown
from diver.losses import ClipLoss, DppoLoss, PolicyLoss
from diver.losses.base import Tokens, kl_to_reference, row_weights
from diver.methods import method_named
from diver.methods.grpo import group_advantage

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "conformance.md"
DATA = ROOT / "src" / "diver" / "integrations" / "conformance.json"
TRAINERS = {"TRL": "trl", "verl": "verl", "ms-swift": "ms-swift"}
"""Trainer -> its distribution. Its pairs are `pairs()` of tests/integrations/*/conformance_<distribution>.py."""
TOLERANCE = 1e-6
UNEXPLAINED = "What differs is not known."

CORRECT, SIZE = (3, 0, 6, 8, 1), 8  # correct responses of each group of 8
WIDTH = 24
PARTS = 4  # micro-batches of ten rows
CLIP = ClipLoss()
KL = ClipLoss(kl_coef=0.1)
C = 3.0  # the third bound of the dual clip; the default of verl


class Batch(NamedTuple):
    """The log-probs of the policy and of the sampler, the entropy of each token, and where there are tokens, [n, T];
    the advantages and the rewards of the n rows, whose groups stand together; the reference's log-probs, [n, T]."""

    logprobs: Tensor
    old_logprobs: Tensor
    entropy: Tensor
    mask: Tensor
    advantages: Tensor
    rewards: np.ndarray
    reference: Tensor

    @property
    def parts(self) -> list[slice]:
        """The rows of each micro-batch."""
        rows = len(self.mask) // PARTS
        return [slice(start, start + rows) for start in range(0, PARTS * rows, rows)]


class Found(NamedTuple):
    """What a side computes: the loss, None for advantages, and its gradients or the advantages."""

    loss: float | None
    numbers: Tensor


@dataclass(frozen=True)
class Pair:
    """One of our losses or advantages and a trainer's setting of that name.

    `term` is the sentence on what differs, and `changed` our computation with that change; neither is there where the
    two are expected to be equal.
    """

    name: str
    setting: str
    ours: Callable[[], Found]
    theirs: Callable[[], Found]
    term: str = ""
    changed: Callable[[], Found] | None = None


class Run(NamedTuple):
    """A run of a trainer, whose optimizer steps are computed again.

    Attributes:
        train: trains, and returns the number of optimizer steps and their check, which fails by an AssertionError.
        term: the sentence on what differs.
        changed: what the check is given to compute with that change.
    """

    name: str
    trainer: str
    setting: str
    train: Callable[[], tuple[int, Callable[..., Any]]]
    term: str = ""
    changed: Mapping[str, Any] = {}


def make_batch() -> Batch:
    """Ragged rows of groups with none, some and all correct, and ratios far beyond a clip on both sides, in float64."""
    random = torch.Generator().manual_seed(0)
    rewards = np.concatenate([np.repeat([1.0, 0.0], [correct, SIZE - correct]) for correct in CORRECT])
    shape = len(rewards), WIDTH

    def uniform(low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(shape, generator=random, dtype=torch.float64)

    logprobs = uniform(-4.0, 0.0)
    old = (logprobs + uniform(-1.5, 1.5)).clamp(max=-0.01)
    entropy = uniform(0.0, 2.0)
    lengths = torch.randint(1, WIDTH + 1, (len(rewards),), generator=random)
    advantages = np.concatenate([group_advantage(group) for group in rewards.reshape(-1, SIZE)])
    mask, reference = torch.arange(WIDTH) < lengths[:, None], logprobs + uniform(-1.0, 1.0)
    return Batch(logprobs, old, entropy, mask, torch.from_numpy(advantages), rewards, reference)


BATCH = make_batch()


# Our side.


def our_loss(
    loss: PolicyLoss,
    batch: Batch = BATCH,
    *,
    weights: Tensor | None = None,
    entropy_weights: Tensor | None = None,
    select: Callable[[PolicyLoss, Batch], Tensor] | None = None,
    kl: Callable[[Tokens, Tensor], Tensor] | None = None,
) -> Found:
    """The loss of the batch as one mini-batch, as the built-in trainer computes it.

    `weights` [n] and `entropy_weights` [n] take the place of `row_weights`, `select` that of `selection`, and `kl` that
    of `kl_to_reference`.
    """
    logprobs, entropy = (x.clone().requires_grad_() for x in (batch.logprobs, batch.entropy))
    weights = row_weights(batch.mask.sum(1), loss.aggregation) if weights is None else weights
    entropy_weights = weights if entropy_weights is None else entropy_weights
    selected = (select or selection)(loss, batch) if loss.selects_tokens else torch.zeros_like(batch.mask)
    tokens = Tokens(logprobs, batch.old_logprobs, batch.advantages[:, None], mask=batch.mask, selected=selected)
    values, _ = loss.forward(tokens)
    if loss.kl_coef:
        values = values + loss.kl_coef * (kl or k3)(tokens, batch.reference)
    total = (values * batch.mask * weights[:, None]).sum()
    total = total - loss.entropy_coef * (entropy * batch.mask * entropy_weights[:, None]).sum()
    return differentiated(total, logprobs, entropy)


def k3(tokens: Tokens, reference: Tensor) -> Tensor:
    return kl_to_reference(tokens.logprobs, reference)


def selection(loss: PolicyLoss, batch: Batch, seed: int = 0) -> Tensor:
    """The tokens that the loss selects of the batch: bool [n, T]."""
    mask = batch.mask
    uniform = torch.rand(int(mask.sum()), generator=torch.Generator().manual_seed(seed))
    advantages = batch.advantages[:, None].expand_as(mask)[mask]
    flat = batch.logprobs[mask]
    selected = torch.zeros_like(mask)
    selected[mask] = loss.select_tokens(
        Tokens(flat, batch.old_logprobs[mask], advantages, torch.zeros_like(flat), uniform=uniform)
    )
    return selected


def differentiated(total: Tensor, *leaves: Tensor) -> Found:
    """A loss and its gradients with respect to `leaves`, 0 for one that it does not depend on."""
    total.backward()
    return Found(
        float(total.detach()), torch.stack([torch.zeros_like(x) if x.grad is None else x.grad for x in leaves])
    )


def rows_of(batch: Batch, rows: slice) -> Batch:
    return Batch(*(column[rows] for column in batch))


def summed(loss_of: Callable[[Batch], Tensor], batch: Batch = BATCH, parts: Sequence[slice] | None = None) -> Found:
    """The sum of a trainer's losses of the micro-batches, which is what it takes an optimizer step with."""
    logprobs, entropy = (x.clone().requires_grad_() for x in (batch.logprobs, batch.entropy))
    given = batch._replace(logprobs=logprobs, entropy=entropy)
    losses = [loss_of(rows_of(given, rows)) for rows in (batch.parts if parts is None else parts)]
    return differentiated(torch.stack(losses).sum(), logprobs, entropy)


WHOLE = [slice(None)]
"""The one micro-batch that is the mini-batch."""


# What differs, as a change of our side.


class DualClip(ClipLoss):
    """The clipped surrogate whose ratio is at most C where A < 0, too (arXiv 1912.09729)."""

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        values, metrics = super().forward(tokens)
        return values.where(tokens.advantages >= 0, values.minimum(-C * tokens.advantages)), metrics


class BinaryKl(DppoLoss):
    """DPPO whose trust region is that of the KL divergence of the binary distribution, from old to new."""

    def forward(self, tokens: Tokens) -> tuple[Tensor, dict[str, Tensor]]:
        new, old = tokens.logprobs.detach().exp(), tokens.old_logprobs.exp()
        kl = old * (old / new).log() + (1 - old) * ((1 - old) / (1 - new)).log()
        is_outside = (kl > self.delta) & ((new - old) * tokens.advantages.sign() > 0)
        weight = (new / old).clamp(max=self.max_ratio)
        values = -weight * tokens.advantages * tokens.logprobs
        return values.masked_fill(is_outside, 0.0), {}


def k1(tokens: Tokens, reference: Tensor) -> Tensor:
    return tokens.logprobs - reference


def k2(tokens: Tokens, reference: Tensor) -> Tensor:
    return (tokens.logprobs - reference).square() / 2


def k3_of_old(tokens: Tokens, reference: Tensor) -> Tensor:
    """k3 times the ratio, as an expectation over the policy that sampled."""
    return (tokens.logprobs - tokens.old_logprobs).exp() * k3(tokens, reference)


def of_micro_batches(aggregation: str, batch: Batch = BATCH) -> Tensor:
    """The weights of a mean that is taken in each micro-batch first, and then over the micro-batches: [n]."""
    lengths = batch.mask.sum(1)
    return torch.cat([row_weights(lengths[rows], aggregation) / PARTS for rows in batch.parts])


def selection_by_parts(loss: PolicyLoss, batch: Batch) -> Tensor:
    return torch.cat([selection(loss, rows_of(batch, rows)) for rows in batch.parts])


MICRO_BATCH_MEAN = (
    "The mean is over the tokens of each micro-batch, and then over the micro-batches, where ours is over all tokens "
    "of the mini-batch."
)
CONSTANT_LENGTH = f"The sum over the tokens is also divided by the length limit, here {WIDTH}."
WITHIN = (
    "Covariances and the number of selected tokens are those of a micro-batch, where ours are those of the mini-batch."
)


def loss_pair(
    name: str,
    setting: str,
    loss: PolicyLoss,
    theirs: Callable[[], Found],
    term: str = "",
    changed: PolicyLoss | None = None,
    **changes: Any,
) -> Pair:
    """One of our losses and a trainer's; where a `term` differs, `changed` (or `loss`) with `changes` of `our_loss`."""
    return Pair(
        name,
        setting,
        lambda: our_loss(loss),
        theirs,
        term,
        (lambda: our_loss(changed or loss, **changes)) if term else None,
    )


def micro_batch_pairs(theirs: Callable[[str], Callable[[], Found]]) -> Iterator[Pair]:
    """The two means of TRL's that ms-swift has too; `theirs(loss_type)` computes one."""
    by_tokens, by_sums = (of_micro_batches(mean) for mean in ("token-mean", "token-sum"))
    yield loss_pair("clip", "loss_type=bnpo", CLIP, theirs("bnpo"), MICRO_BATCH_MEAN, weights=by_tokens)
    sums = ClipLoss(aggregation="token-sum")
    yield loss_pair(
        "clip", "loss_type=dr_grpo", sums, theirs("dr_grpo"), CONSTANT_LENGTH, CLIP, weights=by_sums / WIDTH
    )


def dual_clip(setting: str, name: str, theirs: Callable[[], Found]) -> Pair:
    term = f"Where A < 0, the ratio has an upper bound too, {name} = {C:g}."
    return loss_pair("dual-clip", setting, CLIP, theirs, term, DualClip())


# Advantages.


def our_advantages(method: str, **settings: Any) -> Found:
    """The advantages that the method gives the rows: [n]."""
    groups = np.arange(len(BATCH.rewards)) // SIZE
    found = diver.advantages([""] * len(groups), BATCH.rewards, groups, method_named(method, **settings))
    return Found(None, torch.from_numpy(np.asarray(found)))


def over_sample_std(epsilon: float, of_batch: bool = False) -> Found:
    """r - mean over the standard deviation of the sample plus epsilon, that of the group or of all rewards."""
    groups = BATCH.rewards.reshape(-1, SIZE)
    std = BATCH.rewards.std(ddof=1) if of_batch else groups.std(axis=1, ddof=1, keepdims=True)
    return Found(None, torch.from_numpy(((groups - groups.mean(1, keepdims=True)) / (std + epsilon)).ravel()))


def grpo_pair(setting: str, epsilon: float, theirs: Callable[[], Found], of_batch: bool = False) -> Pair:
    which = "all n rewards as a sample, 1/(n-1)," if of_batch else "the group as a sample, 1/(G-1),"
    term = (
        f"The divisor is the standard deviation of {which} plus {np.format_float_positional(epsilon)}, where ours is "
        "that of the group as a population, 1/G."
    )
    return Pair(
        "grpo", setting, lambda: our_advantages("grpo"), theirs, term, lambda: over_sample_std(epsilon, of_batch)
    )


def rloo_pair(setting: str, theirs: Callable[[], Found]) -> Pair:
    """We have leave-one-out as `dr-grpo`."""
    term = (
        "The mean of the other responses is subtracted, which gives G / (G - 1) times the advantage of dr-grpo, here "
        f"{SIZE}/{SIZE - 1}."
    )

    def changed() -> Found:
        return Found(None, our_advantages("dr-grpo").numbers * SIZE / (SIZE - 1))

    return Pair("rloo", setting, lambda: our_advantages("dr-grpo"), theirs, term, changed)


def dr_grpo_pair(setting: str, theirs: Callable[[], Found]) -> Pair:
    return Pair("dr-grpo", setting, lambda: our_advantages("dr-grpo"), theirs)


# The command.


def row(pair: Pair) -> dict[str, Any]:
    """The comparison of a pair, as it is stored: differences as shares of our largest number."""
    shown: dict[str, Any] = {"name": pair.name, "setting": pair.setting}
    try:
        ours, theirs = pair.ours(), pair.theirs()
        loss, numbers = differences(ours, theirs)
        if is_equal((loss, numbers)):
            return shown | {"equal": True}
        changed = pair.changed and pair.changed()
        explained = changed is not None and is_equal(differences(changed, theirs))
    except Exception as error:  # a release without this setting must not hide the other rows
        return shown | {"equal": False, "explained": False, "by": {}, "term": f"{type(error).__name__}: {error!s:.200}"}
    by = {name: rounded(by) for name, by in (("loss", loss), ("numbers", numbers)) if by is not None}
    return shown | {"equal": False, "explained": explained, "by": by, "term": pair.term if explained else UNEXPLAINED}


def rounded(by: float) -> float:
    """A difference as it is stored: 0 where it is none."""
    return 0.0 if by <= TOLERANCE else float(f"{by:.2g}")


def differences(ours: Found, theirs: Found) -> tuple[float | None, float]:
    """Of the losses and of the numbers, each over the largest of ours."""
    gap = (theirs.numbers - ours.numbers).abs().max() / ours.numbers.abs().max()
    if ours.loss is None or theirs.loss is None:
        return None, float(gap)
    return abs(theirs.loss - ours.loss) / abs(ours.loss), float(gap)


def is_equal(found: tuple[float | None, float]) -> bool:
    return all(by <= TOLERANCE for by in found if by is not None)


def run_row(run: Run) -> dict[str, Any]:
    """What is stored of a run. No difference has a number here: what is sampled depends on the machine."""
    steps, check = run.train()
    shown = {"name": run.name, "setting": f"{run.trainer}: {run.setting}", "steps": steps}
    if holds(check):
        return shown | {"equal": True}
    explained = bool(run.term) and holds(check, **run.changed)
    return shown | {"equal": False, "explained": explained, "term": run.term if explained else UNEXPLAINED}


def holds(check: Callable[..., Any], **options: Any) -> bool:
    try:
        check(**options)
    except AssertionError:
        return False
    return True


def of_trainer(trainer: str) -> Any:
    """The module with `pairs` of a trainer, and with `runs` where it has some; it stands beside the tests of it."""
    name = f"conformance_{TRAINERS[trainer].replace('-', '_')}"
    sys.path += [str(file.parent) for file in (ROOT / "tests" / "integrations").rglob(f"{name}.py")]
    return importlib.import_module(name)


def measured(trainer: str) -> list[dict[str, Any]]:
    """The rows of a trainer that is installed here."""
    return [row(pair) for pair in of_trainer(trainer).pairs()]


def ran(trainer: str) -> list[dict[str, Any]]:
    """The runs of a trainer that is installed here; verl and ms-swift have none."""
    return [run_row(run) for run in getattr(of_trainer(trainer), "runs", tuple)()]


def described() -> dict[str, Any]:
    """What the page says of the batch."""
    tokens = BATCH.mask & (BATCH.advantages != 0)[:, None]
    ratio = (BATCH.logprobs - BATCH.old_logprobs).exp()[tokens]
    advantages = BATCH.advantages[:, None].expand_as(tokens)[tokens]

    def share(where: Tensor) -> float:
        return round(float(where.double().mean()), 2)

    return {
        "tokens": int(BATCH.mask.sum()),
        "above": share((ratio > 1 + CLIP.clip_high) & (advantages > 0)),
        "below": share((ratio < 1 - CLIP.clip_low) & (advantages < 0)),
        "beyond_c": share((ratio > C) & (advantages < 0)),
    }


INTRODUCTION = f"""Our losses and advantages and those of other trainers of the same name, computed on one batch. A
setting of a trainer is equal to 1e-6, in the value and in the gradient with respect to every log-prob, or it is listed
with the term that differs. Each such sentence is tested: our computation with that change equals the trainer's to 1e-6.

`make conformance` makes this page; `make test-trl`, `make test-verl` and `make test-engines` fail if a result changes.
For a newer release, install it in the environment and run `scripts/conformance.py` there: it prints what changed.
[Versions](versions.md) lists the pinned releases.

The batch has {len(CORRECT)} groups of {SIZE} responses and {{tokens}} tokens. Among the tokens with an advantage,
{{above:.0%}} are clipped above and {{below:.0%}} below; for {{beyond_c:.0%}} A is negative and the ratio above {C:g}.
Their advantages are GRPO's. A loss is a sum over {PARTS} micro-batches, unless a setting says that there is one."""

NAMES = {
    "clip": "Loss: clip of PPO and GRPO",
    "dual-clip": "Loss: dual clip",
    "clip-cov": "Loss: Clip-Cov",
    "kl-cov": "Loss: KL-Cov",
    "cispo": "Loss: CISPO",
    "gspo": "Loss: GSPO",
    "sapo": "Loss: SAPO",
    "gmpo": "Loss: GMPO",
    "dppo": "Loss: DPPO",
    "entropy-bonus": "Loss: entropy bonus",
    "kl": "Loss: KL to a reference",
    "grpo": "Advantage: GRPO",
    "dr-grpo": "Advantage: Dr. GRPO",
    "rloo": "Advantage: RLOO",
    "pass-at-k": "Advantage: Pass@k",
    "max-rl": "Advantage: MaxRL",
}


RUNS = {
    "KL": "KL to a reference",
    "steps": "several steps a generation",
    "dense": "dense rewards",
    "masked": "masked tokens",
    "processes": "two processes",
    "LoRA": "LoRA with a reference",
}

OF_RUNS = """Runs of TRL {version} on a CPU sample, grade and train: GRPOTrainer with GroupAdvantage, and DiverTrainer.
Each optimizer step is computed again from a copy of the policy: for GRPOTrainer row by row, with the formulas written
out, for DiverTrainer by the built-in trainer. In an equal run the advantages of every step are equal to 1e-5,
DiverTrainer's gradient to 1e-5, GRPOTrainer's to 1e-3 of its norm and its loss to 1e-4. DiverTrainer's lora_alpha was
chosen after a look at five: at 128 the run diverges, and the trainers differ by 1.7e-5 of the largest gradient."""


def runs_section(release: Mapping[str, Any]) -> str:
    """The kinds of runs of a release by trainer, and each run that differs."""
    runs = [(*run["setting"].split(": ", 1), run) for run in release["runs"]]
    trainers = list(dict.fromkeys(trainer for trainer, *_ in runs))
    cells = [
        [kind, *(verdict([run for t, _, run in runs if (t, run["name"]) == (trainer, name)]) for trainer in trainers)]
        for name, kind in RUNS.items()
    ]
    why = [
        filled(f"- {RUNS[run['name']]}, {trainer} `{setting}`. {run['term']}", "  ")
        for trainer, setting, run in runs
        if not run["equal"]
    ]
    table = markdown(("", *trainers), cells, text=1 + len(trainers))
    return "\n".join(["## Runs\n", filled(OF_RUNS.format(**release)), "", table, *why])


def page(data: Mapping[str, Any]) -> str:
    """docs/conformance.md of the stored rows."""
    trainers = data["trainers"]
    releases = {trainer: f"{trainer} {found['version']}" for trainer, found in trainers.items()}
    rows = {
        name: [(t, r) for t, found in trainers.items() for r in found["rows"] if r["name"] == name] for name in NAMES
    }
    summary = [
        [NAMES[name], *(verdict([r for t, r in found if t == trainer]) for trainer in trainers)]
        for name, found in rows.items()
    ]
    header = ("", *releases.values())
    introduction = [filled(part) for part in INTRODUCTION.format(**data["batch"]).split("\n\n")]
    parts = [
        "# Losses and advantages beside other trainers",
        *introduction,
        markdown(header, summary, text=len(header)),
        equal_section(rows),
        differing_section(rows),
        *(runs_section(found) for found in trainers.values() if found.get("runs")),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def filled(text: str, indent: str = "") -> str:
    return textwrap.fill(text, 118, subsequent_indent=indent, break_on_hyphens=False)


def verdict(rows: Sequence[Mapping[str, Any]]) -> str:
    """The cell of a trainer: how many of its settings are equal, and how many are not."""
    equal = sum(row["equal"] for row in rows)
    counts = ((equal, "equal"), (len(rows) - equal, "differs" if len(rows) - equal == 1 else "differ"))
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "has none"


def bare(name: str) -> str:
    """The name of a loss or advantage on the page, without its kind."""
    return NAMES[name].partition(": ")[2]


def equal_section(rows: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]) -> str:
    """The settings that are equal, by the name of the loss or advantage."""
    lines = ["## Equal settings\n"]
    for name, found in rows.items():
        settings: dict[str, list[str]] = {}
        for trainer, row in found:
            if row["equal"]:
                settings.setdefault(trainer, []).append(f"`{row['setting']}`")
        if settings:
            parts = [f"{trainer} {', '.join(of)}" for trainer, of in settings.items()]
            lines.append(filled(f"- {bare(name)}: {'; '.join(parts)}", "  "))
    return "\n".join(lines)


def differing_section(rows: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]) -> str:
    """The settings that differ, by the term: its sentence and the sizes."""
    lines = [
        "## Settings that differ\n",
        "Sizes are shares of our loss, of our largest gradient of a token, or of our largest advantage.\n",
    ]
    for name, found in rows.items():
        terms: dict[tuple[str, ...], list[str]] = {}
        for trainer, row in found:
            if not row["equal"]:
                terms.setdefault((row["term"], *differing(row)), []).append(f"{trainer} `{row['setting']}`")
        kinds = ("loss", "gradient") if NAMES[name].startswith("Loss") else ("", "advantage")
        for (term, *by), settings in terms.items():
            sizes = ", ".join(f"{kind} {size}" for kind, size in zip(kinds, by, strict=True) if kind)
            lines.append(filled(f"- {bare(name)}: {', '.join(settings)} ({sizes}). {term}", "  "))
    return "\n".join(lines)


def differing(row: Mapping[str, Any]) -> list[str]:
    """The cells of the loss, and of its gradient or the advantages."""
    if row["equal"]:
        return ["equal", "equal"]
    if not row["by"]:
        return ["failed", "failed"]
    shown = {key: f"{100 * by:g} %" if by else "equal" for key, by in row["by"].items()}
    return [shown.get(key, "") for key in ("loss", "numbers")]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    """The rows that are not as they were, and those that are new or gone."""
    old, new = (
        {(r["name"], r["setting"]): r for kind in ("rows", "runs") for r in found.get(kind, [])}
        for found in (before, after)
    )
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield f"{' '.join(key)}: {told(old.get(key))} -> {told(new.get(key))}"


def told(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return "no row"
    if row["equal"]:
        return "equal"
    if "steps" in row:
        return f"differs: {row['term']}"
    if not row["by"]:
        return f"failed: {row['term']}"
    return f"differs by {' and '.join(filter(None, differing(row)))}: {row['term']}"


def stored() -> dict[str, Any]:
    return json.loads(DATA.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trainers", nargs="+", choices=TRAINERS, default=["TRL", "verl"])
    data = stored()
    unexplained = []
    for trainer in parser.parse_args().trainers:
        try:
            found = {"version": version(TRAINERS[trainer]), "rows": measured(trainer), "runs": ran(trainer)}
        except PackageNotFoundError:
            sys.exit(f"{trainer} is not installed here: run this in .venv-trainers, or for ms-swift in .venv-engines")
        before = data["trainers"].get(trainer, {})
        print(f"{trainer} {found['version']}, before {before.get('version', 'not compared')}")
        print(*(f"  changed: {line}" for line in changes(before, found)), sep="\n")
        unexplained += [
            f"{trainer}: {row}" for row in found["rows"] + found["runs"] if not (row["equal"] or row["explained"])
        ]
        data["trainers"][trainer] = found
    data = {"batch": described(), "trainers": {t: data["trainers"][t] for t in TRAINERS if t in data["trainers"]}}
    DATA.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(data), encoding="utf-8")
    if unexplained:
        sys.exit("\n".join(["not explained:", *unexplained]))


if __name__ == "__main__":
    main()

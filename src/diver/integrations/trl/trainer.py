"""TRL's GRPOTrainer with the update of the built-in trainer, for methods that a reward function cannot carry.

    args = GRPOConfig("runs/trl", num_generations=8, **DiverTrainer.config("verified-replay"))
    reward = GroupOutcome("verified-replay", args, tokenizer)
    DiverTrainer(model, reward, args=args, train_dataset=problems, processing_class=tokenizer).train()

TRL samples, evaluates, logs and saves. The reward function grades. After TRL has scored a generation, the method shapes
its groups. Every process has all rows of the update, and trains on its part of each optimizer step. Mini-batches
contain whole groups and replayed rollouts. Rows that the method leaves out are not trained on. The loss is that of the
method, with the weights of `diver.train.update`.

It relies on these properties of TRL 1.16; docs/engines/trl.md#divertrainer has the lines and digests of the methods:

    _prepare_inputs                       called once per micro-batch; `_step` counts micro-batches, and
                                          `_buffered_inputs` has those of a generation
    _compute_loss                         gets a micro-batch as `_prepare_inputs` returned it; its value is not
                                          divided again
    _save_checkpoint                      writes `trainer_state.json` last
    _load_optimizer_and_scheduler         called with the checkpoint after `state` is read
    _generate_and_score_completions       samples and calls the reward function; returns tokens, masks, log-probs
    _get_per_token_logps_and_entropies    log-probs and entropies of the last tokens, with gradients
    training_step                         adds 1 to `_step` after each micro-batch
    _get_train_sampler                    the responses to a prompt follow each other, and processes have
                                          consecutive rows
"""

import copy
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate.utils import DistributedType, gather_object
from torch import Tensor
from trl import GRPOTrainer

from diver.core.seeds import draw_indices, stream_seed
from diver.core.turns import turns_of_tokens, with_tokens
from diver.core.types import DiverError, Group, Progress, Rollout, State, without_surplus
from diver.integrations.trl.adapter import GroupAdvantage, check_ids
from diver.integrations.trl.objective import TRAINER, config
from diver.losses.base import Tokens, kl_to_reference, row_weights
from diver.methods import check_replayed
from diver.methods.replay import replay_metrics, weights_of
from diver.sample.policy import entropy
from diver.train.batches import Row, collate, mini_batches, rows_of
from diver.train.checkpoint import read_state, write_state
from diver.train.update import ANCHOR

BATCHES = "trl.batches"
"""The number of sampled batches, in the state of a method that filters groups."""
COLUMNS = {
    # ours -> TRL's, and the value of a replayed row
    "old": ("old_per_token_logps", 0.0),
    "reference": ("ref_per_token_logps", 0.0),
    "correction": ("importance_sampling_ratio", 1.0),
}
"""Values per token that TRL computes for a generation."""
OF_ROWS = ("weight", "is_sampled")
"""The columns of `Padded` with one value for each row."""
Columns = Mapping[str, np.ndarray]
Sampled = tuple[tuple[int, ...], np.ndarray, np.ndarray, Columns]
"""A sampled row: its prompt, all tokens after the prompt [S], which of them the policy wrote [S], and its columns."""
Padded = dict[str, Tensor]
"""Rows of an optimizer step by column, padded: [n, T], and OF_ROWS."""


class GroupOutcome(GroupAdvantage):
    """The reward function of `DiverTrainer`: the outcome of each completion, NaN without one.

    The trainer computes the advantages. The arguments are those of `GroupAdvantage`.
    """

    stock = False
    seam = TRAINER
    began = 0.0  # when the first step began, if the method sampled before it

    def _trained(
        self, sampled: Sequence[Group], progress: Progress, local: slice, inputs: Mapping[str, Any]
    ) -> list[Rollout]:
        self.sampled, self.progress = sampled, progress
        pairs = [pair for group in sampled for pair in zip(group.rollouts, group.outcomes.tolist(), strict=True)]
        return [rollout.replace(advantage=outcome) for rollout, outcome in pairs[local]]  # TRL gets this field

    def restart(self) -> None:
        """Forget the batches so far: they belong to no step."""
        self._place, self.began = (None, 0, 0), time.perf_counter()
        self.times.clear()


class Item(NamedTuple):
    """A row of an optimizer step.

    Attributes:
        row: its tokens and advantages. A row without old log-probs uses those of the update, so its ratio is 1.
        columns: each of COLUMNS that TRL computed, at the tokens that the policy wrote.
        is_sampled: false for a replayed row.
    """

    row: Row
    columns: Columns
    is_sampled: bool = True


class DiverTrainer(GRPOTrainer):
    """GRPOTrainer that updates as the built-in trainer does; its arguments are GRPOTrainer's.

    One of its reward functions is a `GroupOutcome`, which has the method.

    Attributes:
        state_of_method: the state of the method, saved with every checkpoint.
        pool: the rows from which a method that filters groups samples its batches.
    """

    config = staticmethod(partial(config, seam=TRAINER))
    _buffered_inputs: list[dict[str, Any]] | None
    _metrics: dict[str, dict[str, list[float]]]

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        outcomes = [function for function in self.reward_funcs if isinstance(function, GroupOutcome)]
        if len(outcomes) != 1:
            raise DiverError("DiverTrainer: give one GroupOutcome as reward function, which calls others as `outcome`")
        self.outcome, self.pool = outcomes[0], self.train_dataset
        self.state_of_method: State = {}
        self.updates = self.args.steps_per_generation // self.args.gradient_accumulation_steps
        self.problems = self.args.generation_batch_size // self.num_generations
        if faults := [*self._faults()]:
            raise DiverError(*faults)
        if "state" in self.outcome.method.needs and self.outcome.problems is None and hasattr(self.pool, "__len__"):
            check_ids(self.pool)
        self.outcome._read(self)

    def _faults(self) -> Iterator[str]:
        """Why these settings make an update of whole groups impossible, a sentence for each reason."""
        args, method = self.args, self.outcome.method
        if args.steps_per_generation % args.gradient_accumulation_steps or self.problems % self.updates:
            # An optimizer step trains on whole groups.
            steps = f"{args.steps_per_generation} / gradient_accumulation_steps {args.gradient_accumulation_steps}"
            yield f"GRPOConfig: steps_per_generation {steps} must divide {self.problems} problems"
        if self.num_generations % method.selection.multiplier:
            yield f"num_generations = {self.num_generations}: is no multiple of method.selection.samples"
        extra_passes = "replay" in method.needs or method.loss.selects_tokens or method.selection.filter_groups
        if extra_passes and self.accelerator.distributed_type in (DistributedType.DEEPSPEED, DistributedType.FSDP):
            # Replay and the selection of tokens or groups need passes of the model outside the update.
            yield f"method {method.name!r}: DiverTrainer runs it without DeepSpeed and FSDP only"
        if (method.selection.filter_groups or method.start_responses) and not hasattr(self.pool, "__len__"):
            yield f"method {method.name!r}: samples further problems, which a stream does not have"
        if method.start_responses not in (0, self.num_generations):
            size = f"num_generations = {self.num_generations}"
            yield f"method.start_responses = {method.start_responses}: set it to {size}"

    @property
    def _each(self) -> int:
        """The number of micro-batches from one generation to the next."""
        return self.args.steps_per_generation * self.num_iterations

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        if not self.model.training:
            return super()._prepare_inputs(generation_batch)
        if self._step % self._each == 0 or self._buffered_inputs is None:
            if self.outcome.method.start_responses and not self._step:
                self._sample_start()
            self._buffered_inputs = [*self._planned(*self._rollouts(generation_batch))]
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    def _rollouts(self, rows: Any) -> tuple[list[Group], list[list[Columns]]]:
        """All sampled groups, shaped, and the columns of each. A selection of groups may take several batches."""
        selection, outcome = self.outcome.method.selection, self.outcome
        shaped: list[Group] = []
        columns: list[list[Columns]] = []
        for batch in range(selection.max_num_gen_batches if selection.filter_groups else 1):
            rows = self._next_rows() if selection.filter_groups else rows
            groups, batch_columns = self._sampled(rows)
            if batch == 0:
                self.progress = outcome.progress
            self._retry(rows, groups, batch_columns)
            columns += batch_columns
            shaped += outcome.shaped(groups, self.progress, self.state_of_method)
            shaped, enough = without_surplus(shaped, self.problems)
            if enough:
                break
        return shaped, columns

    def _sampled(self, rows: Sequence[Any]) -> tuple[list[Group], list[list[Columns]]]:
        """The graded groups of all processes, and the columns of each; `rows` are those of this process."""
        scored = super()._generate_and_score_completions([{**row} for row in rows])  # TRL writes into the rows
        tokens = self._gathered(scored)
        groups = [_with_tokens(*pair) for pair in zip(self.outcome.sampled, tokens, strict=True)]
        if "logprobs" in self.outcome.method.needs and "old_per_token_logps" not in scored:
            groups = self._with_logprobs(groups)
        return groups, [[columns for *_, columns in rows_of_group] for rows_of_group in tokens]

    def _beside(self, rows: Sequence[Any]) -> tuple[list[Group], list[list[Columns]]]:
        """`_sampled` for rows of all processes outside the generation, which TRL's metrics leave out."""
        metrics = copy.deepcopy(self._metrics)
        sampled = self._sampled(self._part(rows))
        self._metrics = metrics
        self._metrics["train"]["num_tokens"] = [self.state.num_input_tokens_seen]  # a total, not a mean
        return sampled

    def _sample_start(self) -> None:
        """Sample responses to every problem before training, and enter them into the state of the method."""
        for start in range(0, len(self.pool), self.problems):
            numbers = range(start, min(start + self.problems, len(self.pool)))
            # All processes need equal parts, so the last batch is filled up with repeats, which are left out below.
            filled = np.repeat(np.resize(numbers, self.problems), self.num_generations)
            groups, _ = self._beside([self.pool[i] for i in filled.tolist()])
            if any(rollout.logprobs is None for group in groups for rollout in group.rollouts):
                groups = self._with_logprobs(groups)
            for group in groups[: len(numbers)]:
                self.outcome.method.update_start(group, self.state_of_method)
        self.outcome.restart()

    def _retry(self, rows: Sequence[Any], groups: list[Group], columns: list[list[Columns]]) -> None:
        """Sample the groups without a correct response again, and add the new responses to them."""
        method, size = self.outcome.method, self.num_generations
        all_rows = gather_object([*rows]) if method.selection.retries else []
        for _ in range(method.selection.retries):
            is_graded = (not np.isnan(group.outcomes).any() for group in groups)
            unsolved = [i for i, ok in enumerate(is_graded) if ok and not method.correct(groups[i]).any()]
            if not unsolved:
                return
            # The batch is filled up with repeats, as in `_sample_start`; zip leaves them out.
            retried = np.resize(unsolved, self.problems).tolist()
            samples = self._beside([row for i in retried for row in all_rows[i * size : (i + 1) * size]])
            for i, group, new_columns in zip(unsolved, *samples, strict=False):
                if not np.isnan(group.outcomes).any():
                    groups[i], columns[i] = groups[i].joined(group), columns[i] + new_columns

    def _next_rows(self) -> list[Any]:
        """This process's rows of the next batch, in the order of the built-in trainer."""
        state = self.state_of_method
        number = state[BATCHES] = state.get(BATCHES, 0) + 1
        indices = np.repeat(draw_indices(number, self.problems, len(self.pool), self.args.seed), self.num_generations)
        return [self.pool[i] for i in self._part(indices.tolist())]

    def _part(self, rows: Sequence[Any]) -> Sequence[Any]:
        """This process's part of the rows of all processes."""
        count = len(rows) // self.accelerator.num_processes
        return rows[self.accelerator.process_index * count :][:count]

    def _gathered(self, scored: Mapping[str, Tensor]) -> list[list[Sampled]]:
        """The tokens of the rows of all processes, by group."""
        if "num_images" in scored:
            raise DiverError("DiverTrainer trains on texts; for images train with GRPOTrainer and GroupAdvantage")
        attended = scored["completion_mask"].bool()
        written = attended & scored["tool_mask"].bool() if "tool_mask" in scored else attended
        values = {ours: scored[trls] for ours, (trls, _) in COLUMNS.items() if trls in scored}
        rows = []
        for i, (is_token, mask) in enumerate(zip(attended, written, strict=True)):
            columns = {name: value[i].expand(len(mask))[mask].float().cpu().numpy() for name, value in values.items()}
            prompt = scored["prompt_ids"][i][scored["prompt_mask"][i].bool()].tolist()
            ids = scored["completion_ids"][i][is_token]
            rows.append((tuple(prompt), ids.cpu().numpy(), mask[is_token].cpu().numpy(), columns))
        rows, size = gather_object(rows), self.num_generations
        return [rows[start : start + size] for start in range(0, len(rows), size)]

    def _with_logprobs(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with log-probs by the current policy."""
        if not groups:
            return []
        batch = self._padded([Item(row, {}) for row in rows_of(groups, [0.0] * sum(map(len, groups)))])
        logprobs = self._scores(batch)[0].cpu().numpy()
        row_logprobs = iter([row[mask] for row, mask in zip(logprobs, batch["mask"].cpu().numpy(), strict=True)])
        return [group.with_each(logprobs=[next(row_logprobs) for _ in range(len(group))]) for group in groups]

    def _planned(self, shaped: Sequence[Group], columns: Sequence[Sequence[Columns]]) -> Iterator[dict[str, Any]]:
        """This process's micro-batches for all optimizer steps of a generation. Metrics are logged."""
        method, state, progress = self.outcome.method, self.state_of_method, self.progress
        trained = [
            (chosen, group_columns)
            for group, group_columns in zip(shaped, columns, strict=True)
            if (chosen := group.only(r.trained is True for r in group.rollouts))
        ]
        batches = mini_batches(trained, self.problems // self.updates)
        replayed: list[Group] = []
        if "replay" in method.needs and batches:
            stored = check_replayed(method, method.replayed(state, self.problems, progress))
            replayed = method.reweighed(stored, self._with_logprobs(stored))
        steps = [
            [
                *_items(batch, method.loss.aggregation),
                *(Item(row, {}, is_sampled=False) for row in rows_of(share, weights_of(share))),
            ]
            for i, batch in enumerate(batches)
            for share in [replayed[i :: len(batches)]]
        ]
        self._log_generation(shaped, replayed, [item for step in steps for item in step])
        if method.loss.has_anchor and steps and ANCHOR not in state:
            padded = self._padded([item for step in steps for item in step])
            state[ANCHOR] = method.loss.measure_anchor(self._tokens(padded))
        random = torch.Generator().manual_seed(stream_seed(self.args.seed, "choose", progress.step + 1))
        for i in range(self.updates):
            yield from self._micro_batches(steps[i] if i < len(steps) else [], random)

    def _micro_batches(self, items: Sequence[Item], random: torch.Generator) -> Iterator[dict[str, Any]]:
        """This process's micro-batches of one optimizer step."""
        accumulated, rank = self.args.gradient_accumulation_steps, self.accelerator.process_index
        if not items:  # a selection left too few groups: this step changes no weight
            yield from ({"rows": torch.empty(0)} for _ in range(accumulated))
            return
        padded = self._padded(items)
        cells = np.array_split(np.arange(len(items)), self.accelerator.num_processes * accumulated)
        for i, cell in enumerate(cells[rank * accumulated : (rank + 1) * accumulated]):
            rows = torch.from_numpy(cell if len(cell) else np.zeros(1, np.int64))
            micro_batch: dict[str, Any] = {name: column[rows] for name, column in padded.items()} | {"rows": rows}
            if not len(cell):  # every process must run the model, since the others wait for it
                micro_batch["mask"] = torch.zeros_like(micro_batch["mask"])
            if self.outcome.method.loss.selects_tokens and i == 0:  # the first selects for all, in `_select`
                micro_batch |= {"whole": padded, "uniform": torch.rand(int(padded["mask"].sum()), generator=random)}
            yield micro_batch

    def _padded(self, items: Sequence[Item]) -> Padded:
        """The columns of rows, on the device."""
        batch = collate([item.row for item in items], self.accelerator.device)  # NaN where old log-probs are None
        padded = {n: getattr(batch, n) for n in ("ids", "attention", "tokens", "mask", "old_logprobs", "weight")}
        padded["advantages"] = batch.advantages.expand_as(batch.mask)
        for name, (_, neutral) in COLUMNS.items():
            if name != "old" and any(name in item.columns for item in items):
                padded[name] = torch.full_like(batch.old_logprobs, neutral)
                for row, mask, item in zip(padded[name], batch.mask, items, strict=True):
                    if name in item.columns:
                        row[mask] = torch.from_numpy(item.columns[name]).to(row)
        padded["is_sampled"] = torch.tensor([[item.is_sampled] for item in items], device=batch.mask.device)
        return padded

    def _scored(self, model: Any, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """log pi of each token and the entropy that the loss reads, [n, T] each."""
        width, top_p = batch["mask"].shape[1], self.outcome.method.loss.top_p
        if top_p == 1:
            inputs = model, batch["ids"], batch["attention"], width
            logprobs, entropies, _ = self._get_per_token_logps_and_entropies(*inputs, compute_entropy=True)
            return logprobs, entropies
        with self.accelerator.autocast():
            logits = model(input_ids=batch["ids"], attention_mask=batch["attention"], logits_to_keep=width + 1).logits
        scores = (logits[:, -width - 1 : -1].float() / self.temperature).log_softmax(-1)
        return scores.gather(-1, batch["tokens"][..., None])[..., 0], entropy(scores, top_p)

    @torch.no_grad()
    def _scores(self, batch: Padded) -> tuple[Tensor, Tensor]:
        """`_scored` for all rows, by the current policy; each process computes a part of them."""
        splits = torch.arange(len(batch["mask"])).tensor_split(self.accelerator.num_processes)
        rows = splits[self.accelerator.process_index]
        parts = [
            {n: c[i] for n, c in batch.items()} for i in rows.split(self.args.per_device_train_batch_size) if len(i)
        ]
        scores = [torch.stack(self._scored(self.model, part)).float().cpu() for part in parts]
        both = torch.cat(gather_object(scores), 1).to(batch["mask"].device)
        return both[0], both[1]

    def _tokens(self, batch: Padded, uniform: Tensor | None = None) -> Tokens:
        """All tokens that the policy wrote, scored by the current policy: [N] each."""
        mask = batch["mask"]
        logprobs, entropies = self._scores(batch)
        old = torch.where(batch["old_logprobs"].isnan(), logprobs, batch["old_logprobs"])
        return Tokens(
            logprobs[mask],
            old[mask],
            batch["advantages"][mask],
            entropies[mask],
            lengths=mask.sum(1).cpu(),
            weights=batch["weight"][:, None].expand_as(mask)[mask],
            uniform=None if uniform is None else uniform.to(mask.device),
            anchor=self.state_of_method.get(ANCHOR),
        )

    def _select(self, inputs: Mapping[str, Any]) -> None:
        """Mark the tokens that the loss selects, in this process's micro-batches of an optimizer step."""
        loss, mask = self.outcome.method.loss, inputs["whole"]["mask"]
        if self._step % self._each == 0 and not loss.selects_on_policy:  # the policy equals the sampler
            chosen = torch.zeros(int(mask.sum()), dtype=torch.bool, device=mask.device)
        else:
            chosen = loss.select_tokens(self._tokens(inputs["whole"], inputs["uniform"]))
        selected = torch.zeros(mask.shape, dtype=chosen.dtype, device=mask.device).masked_scatter(mask, chosen)
        start = self._step % self.args.steps_per_generation
        assert self._buffered_inputs is not None
        for micro_batch in self._buffered_inputs[start : start + self.args.gradient_accumulation_steps]:
            micro_batch["selected"] = selected[micro_batch["rows"]]

    def _compute_loss(self, model: Any, inputs: Any) -> Tensor:
        if "rows" not in inputs:  # an evaluation
            return super()._compute_loss(model, inputs)
        if not len(inputs["rows"]):  # without gradients AdamW leaves the weights as they are
            return torch.zeros((), device=self.accelerator.device, requires_grad=True)
        if "whole" in inputs:
            self._select(inputs)
        columns = {name: value for name, value in inputs.items() if name not in ("rows", "whole", "uniform")}
        chunks = torch.arange(len(inputs["rows"])).split(self.args.per_device_train_batch_size)
        total, sums = torch.zeros((), device=self.accelerator.device), []
        # The memory is planned without replayed rows, so the gradient of each chunk is computed at once. Processes
        # average their gradients at the last chunk only, and DDP decides that in the forward pass.
        for i, chunk in enumerate(chunks):
            batch, last = _trimmed({name: column[chunk] for name, column in columns.items()}), i == len(chunks) - 1
            with nullcontext() if last else self.accelerator.no_sync(model):
                value, figures = self._loss_of(model, batch)
                sums.append(torch.stack([*figures.values()]))
                if not last:
                    self.accelerator.backward(value)
            total = total + (value if last else value.detach())
        count, *totals = self.accelerator.reduce(torch.stack(sums).sum(0), reduction="sum").tolist()
        for name, figure in zip([*figures][1:], totals, strict=True):
            self._metrics["train"][name].append(figure / max(1.0, count))
        return total

    def _loss_of(self, model: Any, batch: Padded) -> tuple[Tensor, dict[str, Tensor]]:
        """What some rows add to the loss, and sums over their sampled tokens; the first sum is the number of tokens."""
        loss, mask, is_sampled = self.outcome.method.loss, batch["mask"], batch["is_sampled"]
        logprobs, entropies = self._scored(model, batch)
        old = torch.where(batch["old_logprobs"].isnan(), logprobs.detach(), batch["old_logprobs"])
        tokens = Tokens(logprobs, old, batch["advantages"], entropies, mask, batch.get("selected"))
        values, metrics = loss.forward(tokens)
        values = values * batch.get("correction", 1.0)
        figures = {"count": torch.ones_like(logprobs), "entropy": entropies}
        figures |= {name.replace("clip_fraction", "clip_ratio/region_mean"): metric for name, metric in metrics.items()}
        if loss.kl_coef:  # KL and entropy terms apply to sampled rollouts only
            kl = kl_to_reference(logprobs, torch.where(is_sampled, batch["reference"], logprobs.detach()))
            values, figures["kl"] = values + loss.kl_coef * kl, kl
        if loss.entropy_coef:
            values = values - loss.entropy_coef * entropies * is_sampled
        total = (values.masked_fill(~mask, 0.0) * batch["weight"][:, None]).sum()
        sums = {n: f[mask & is_sampled].detach().float().sum() for n, f in figures.items()}
        # Gradients of several processes are averaged, and the weights are those of all rows.
        return total * self.accelerator.num_processes, sums

    def _log_generation(self, shaped: Sequence[Group], again: Sequence[Group], items: Sequence[Item]) -> None:
        """Log the metrics of a generation, and our columns of the table of completions."""
        method, extra = self.outcome.method, dict[str, float]()
        if "replay" in method.needs:
            shares = {True: 0.0, False: 0.0}
            for row, _, is_sampled in items:
                shares[is_sampled] += row.weight * float(np.abs(np.broadcast_to(row.advantages, row.written)).sum())
            extra = replay_metrics(again, shares[False], shares[True]) | method.replay.metrics(self.state_of_method)
        if method.selection.filter_groups:
            extra["sample/batches"] = len(shaped) / self.problems
        for name, value in self.outcome.reported(shaped, self.progress, extra).items():
            self._metrics["train"][name].append(value)
        rollouts = [rollout for group in shaped for rollout in group.rollouts]
        if method.selection.retries:
            self._table_of(shaped)
        self._logs["advantages"].clear()  # TRL has entered the outcomes minus their mean
        self._logs["advantages"].extend(rollout.advantage for rollout in rollouts)
        for name, column in self.outcome.columns_of(rollouts).items():
            self._logs["extra"][name].extend(column)

    def _table_of(self, shaped: Sequence[Group]) -> None:
        """Enter all rows of these groups into the table of completions, in which TRL has only those sampled last.

        The values of other functions and columns are unknown.
        """
        rows = [(group, rollout) for group in shaped for rollout in group.rollouts]
        for name, function in zip(self.reward_func_names, self.reward_funcs, strict=True):
            outcomes = [r.reward.outcome if r.reward and function is self.outcome else np.nan for _, r in rows]
            self._logs["rewards"][name].extend(outcomes)
        for column in self._logs["extra"].values():
            column.extend([None] * len(rows))
        chat = isinstance(self._logs["prompt"][-1], list)
        for name, role, texts in (
            ("prompt", "user", [group.prompt for group, _ in rows]),
            ("completion", "assistant", [rollout.response for _, rollout in rows]),
        ):
            self._logs[name].extend([{"role": role, "content": text}] if chat else text for text in texts)

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        path = Path(self._get_output_dir(trial=trial), f"checkpoint-{self.state.global_step}")
        path.mkdir(parents=True, exist_ok=True)
        if self.accelerator.is_main_process and self.state_of_method:
            write_state(path, self.state_of_method)
        if self._step % self._each:
            torch.save(self._buffered_inputs, path / self._file)
        self.accelerator.wait_for_everyone()
        super()._save_checkpoint(model, trial)  # ends with the file that marks a complete checkpoint

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is None:
            return
        self.state_of_method = read_state(Path(checkpoint))
        self._step = self.state.global_step * self.args.gradient_accumulation_steps
        if self._step % self._each:
            if not (file := Path(checkpoint, self._file)).exists():
                raise DiverError(f"{file}: is missing, the rest of a generation; resume with as many processes")
            self._buffered_inputs = torch.load(file, map_location=self.accelerator.device, weights_only=True)

    @property
    def _file(self) -> str:
        """The file of this process in a checkpoint within a generation."""
        return f"generation_{self.accelerator.process_index}.pt"


def _with_tokens(group: Group, sampled: Sequence[Sampled]) -> Group:
    """The group with its tokens, and with the log-probs of the sampling policy if they are known."""
    rollouts = []
    for rollout, (_, ids, written, columns) in zip(group.rollouts, sampled, strict=True):
        tokens, turns = ids[written].tolist(), rollout.turns
        if rollout.tokens is not None and [*rollout.tokens] != tokens:
            raise DiverError(
                "TRL trains on other tokens; for those of a rollout_func, return env_mask as policy_mask, too"
            )
        if turns:
            turns = with_tokens(turns, ids.tolist(), written.tolist())
        elif not written.all():
            turns = turns_of_tokens(ids.tolist(), written)
        rollouts.append(rollout.replace(tokens=tokens, turns=turns, logprobs=columns.get("old")))
    return Group(group.problem, tuple(rollouts), group.prompt, sampled[0][0])


def _items(batch: Sequence[tuple[Group, Sequence[Columns]]], aggregation: str) -> Iterator[Item]:
    """The sampled rows of a mini-batch of groups, weighted."""
    groups = [group for group, _ in batch]
    weights = row_weights(torch.tensor([r.length for group in groups for r in group.rollouts]), aggregation).tolist()
    return map(Item, rows_of(groups, weights), (columns[r.index] for group, columns in batch for r in group.rollouts))


def _trimmed(rows: Padded) -> Padded:
    """The rows without the positions that are padding in all of them."""
    all_columns = rows["attention"].bool().any(0)
    responses = all_columns[-rows["mask"].shape[1] :]
    keep = {"ids": all_columns, "attention": all_columns}
    return {name: c if name in OF_ROWS else c[:, keep.get(name, responses)] for name, c in rows.items()}

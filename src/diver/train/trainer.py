"""Training, to be read top to bottom: sample whole groups, verify, shape, update.

for each rollout step:
    groups = sample(problems)          # G responses to each
    groups = verify(groups)            # grades and outcomes
    groups = method.apply(groups)      # diversity, shaping, selection, advantage
    update(policy, groups)             # one optimizer step a mini-batch
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from tqdm import tqdm

from diver.config.recipe import Recipe
from diver.data.prompts import Prompted, prompted
from diver.data.splits import draw_indices, load
from diver.evaluate.evaluate import evaluate, metrics
from diver.evaluate.task import Task
from diver.generate.base import sample_groups
from diver.generate.hf import HFGenerator
from diver.generate.policy import Policy, load_policy
from diver.io.run_folder import RunFolder
from diver.io.seeds import stream_seed
from diver.methods import NEEDS, check_needs
from diver.train import checkpoint
from diver.train.loggers import Logger, open_loggers
from diver.train.update import update
from diver.types import DiverError, Group, Problem, Progress, grade_fractions
from diver.verify import verify

KS = (1, 4, 16, 64)  # of Pass@k on the held-out problems


class Trainer:
    """One run: everything that is made once."""

    def __init__(self, recipe: Recipe, folder: RunFolder) -> None:
        self.recipe, self.folder, self.method = recipe, folder, recipe.method
        check_needs(self.method, "the built-in trainer", NEEDS)
        self.schedule_steps = int(folder.config["schedule_steps"])
        saved = folder.checkpoints()
        # Problems first: a wrong name there should not cost the loading of a large model.
        train, held, self.notes = load(recipe.data, recipe.evaluate.source, recipe.evaluate.problems, recipe.run.seed)
        self.policy = load_policy(recipe.model, saved[-1] if saved else None)
        self.reference = self._reference()
        self.train, self.held = self._prompted(train), self._prompted(held)
        self.generator = HFGenerator(self.policy, recipe.model.path, recipe.sample.max_num_seqs)
        self._check()
        self.optimizer = torch.optim.AdamW(
            self.policy.model.parameters(),
            lr=recipe.train.learning_rate,
            betas=recipe.train.betas,
            weight_decay=recipe.train.weight_decay,
        )
        self.step = checkpoint.restore(saved[-1], self.policy, self.optimizer) if saved else 0

    def run(self) -> None:
        """Go on to the last step of the recipe; every step ends with a row in metrics.jsonl."""
        steps, every = self.recipe.train.steps, self.recipe.evaluate.every
        self.folder.begin()
        self.folder.keep_until(self.step)
        loggers = open_loggers(self.recipe.log, self.folder.path, self.folder.config, self.step)
        self._start()
        if self.held.problems and not self.folder.rows("metrics.jsonl"):
            self._record(0, self._evaluate(0, self.recipe.evaluate.num_samples), loggers)
        with tqdm(total=steps, initial=self.step, desc="train", unit="step", dynamic_ncols=True) as bar:
            while self.step < steps:
                self.step += 1
                row = self._step(self.step, bar)
                last = self.step == steps
                if self.held.problems and (last or (every and self.step % every == 0)):
                    bar.set_description("evaluate")
                    e = self.recipe.evaluate
                    row |= self._evaluate(self.step, e.num_samples if last else e.num_samples_in_training)
                self._record(self.step, row, loggers)
                if last or self.step % self.recipe.train.save_steps == 0:
                    bar.set_description("save")
                    checkpoint.save(
                        self.folder, self.step, self.policy, self.optimizer, self.recipe.train.save_total_limit
                    )
                bar.set_postfix_str(_status(row))
                bar.update()
        for logger in loggers:
            logger.close()

    def _record(self, step: int, row: Mapping[str, float], loggers: Sequence[Logger]) -> None:
        self.folder.append("metrics.jsonl", {"step": step, **row})
        for logger in loggers:
            logger.log(step, row)

    def _step(self, step: int, bar: tqdm) -> dict[str, float]:
        """One rollout step: the four verbs, and what is worth knowing about them."""
        recipe, method = self.recipe, self.method
        progress = Progress(step - 1, self.schedule_steps)
        clock: dict[str, float] = {}
        with _timed(clock, "time/sample"):
            bar.set_description("sample")
            sampled = self._sample(step)
        with _timed(clock, "time/verify"):
            bar.set_description("verify")
            verified = verify(sampled, recipe.verify)
        with _timed(clock, "time/diversity"):
            bar.set_description("shape")
            groups = method.apply(verified, progress, self._decode)
        self.folder.write_rollouts(step, groups)
        with _timed(clock, "time/update"):
            bar.set_description("update")
            self._set_learning_rate(step)
            torch.manual_seed(stream_seed(recipe.run.seed, "dropout", step))  # of models that have it
            learned = update(
                self.policy,
                self.optimizer,
                groups,
                method.loss,
                recipe.train,
                temperature=recipe.sample.temperature,
                seed=stream_seed(recipe.run.seed, "choose", step),
                reference=self.reference,
            )
        return {**method.metrics(groups, progress, verified), **_sampling_metrics(verified), **learned, **clock}

    def _sample(self, step: int) -> list[Group]:
        how = self.recipe.sample
        index = draw_indices(step, self.recipe.train.batch_size, len(self.train.problems), self.recipe.run.seed)
        return sample_groups(
            self.generator,
            [self.train.problems[i] for i in index],
            [self.train.texts[i] for i in index],
            how.group_size * self.method.selection.multiplier,
            temperature=how.temperature,
            max_tokens=how.max_tokens,
            seed=stream_seed(self.recipe.run.seed, "sample", step),
        )

    def _evaluate(self, step: int, samples: int) -> dict[str, float]:
        """Pass@k on the held-out problems, also written to eval/step_NNNN.json.

        Every step has the same random streams, so that a policy that has not changed has not changed here, either.
        """
        recipe, clock = self.recipe, dict[str, float]()
        task = Task(
            name=Path((recipe.evaluate.source or recipe.data).path).stem,
            problems=self.held.problems,
            template=recipe.data.template,
            temperature=recipe.evaluate.temperature,
            max_tokens=recipe.sample.max_tokens,
            samples=samples,
            ks=[k for k in KS if k <= samples],
            seed=recipe.run.seed,
            info={"generator": "transformers"},
        )
        with _timed(clock, "time/evaluate"):
            result = evaluate(task, lambda: self.generator, verification=recipe.verify)
        about = {"step": step, "model": recipe.model.path, "benchmark": task.name}
        self.folder.write_evaluation(step, {**about, **result})
        return {**metrics(result), **clock}

    def _start(self) -> None:
        """Tell what is about to happen: the first rendered prompt, and anything odd about the data."""
        say = tqdm.write
        for note in self.notes:
            say(note)
        if self.step:
            say(f"{self.folder.path}: going on after step {self.step}")
        elif self.recipe.train.steps:
            say(f"first prompt:\n{self.train.texts[0]}\n")
        if self.recipe.train.steps > self.schedule_steps:
            coef = self.method.coef(Progress(self.schedule_steps, self.schedule_steps))
            say(
                f"schedules run over the {self.schedule_steps} steps this run first had; steps after that keep lambda at its "
                f"last value, {coef:g}"
            )

    def _set_learning_rate(self, step: int) -> None:
        warmup = self.recipe.train.warmup_steps
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.train.learning_rate * (min(1.0, step / warmup) if warmup else 1.0)

    def _decode(self, ids: Sequence[int]) -> str:
        return self.policy.tokenizer.decode(ids, skip_special_tokens=True)

    def _reference(self) -> Policy | None:
        """The policy before training, frozen, for the KL term; not loaded where kl_coef is 0."""
        if not self.method.loss.kl_coef:
            return None
        reference = load_policy(self.recipe.model)
        reference.model.requires_grad_(False).eval()
        return reference

    def _prompted(self, problems: Sequence[Problem]) -> Prompted:
        how = self.recipe.sample
        result = prompted(problems, self.recipe.data.template, self.policy.tokenizer, how.max_prompt_tokens)
        if result.skipped:
            self.notes.append(
                f"{result.skipped} of {len(problems)} prompts are longer than sample.max_prompt_tokens "
                f"({how.max_prompt_tokens}) and were left out"
            )
        return result

    def _check(self) -> None:
        how, batch = self.recipe.sample, self.recipe.train.batch_size
        for what, left in (("train on", self.train), ("evaluate on", self.held)):
            if not left.problems and (left is self.train or self.recipe.evaluate.problems):
                raise DiverError(f"no problem is left to {what}. {' '.join(self.notes)}")
        if not len(self.generator.ends):
            raise DiverError(f"model.path {self.recipe.model.path!r}: neither tokenizer nor model names an end token")
        if batch > len(self.train.problems):
            raise DiverError(
                f"train.batch_size: {batch} problems in a step, but {self.recipe.data.path!r} has only "
                f"{len(self.train.problems)} to train on" + "".join(f"; {note}" for note in self.notes)
            )
        context, longest = self.policy.context, how.max_prompt_tokens + how.max_tokens
        if context is not None and longest > context:
            raise DiverError(
                f"sample: max_prompt_tokens + max_tokens = {longest} exceeds the {context} positions of "
                f"{self.recipe.model.path!r}; lower them, or start from a model with a longer context"
            )


def _sampling_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Over every sampled rollout: grades, lengths, and the entropy as a mean over tokens."""
    rollouts = [r for g in groups for r in g.rollouts]
    tokens = sum(r.length for r in rollouts)
    return {
        **grade_fractions(groups),
        "response/length_mean": tokens / len(rollouts),
        "response/truncated": sum(r.truncated for r in rollouts) / len(rollouts),
        "policy/entropy": sum(r.entropy * r.length for r in rollouts if r.length) / max(1, tokens),
    }


def _status(row: Mapping[str, float]) -> str:
    names = {
        "reward/outcome": "reward",
        "diversity/textual": "TD",
        "diversity/equational": "ED",
        "policy/entropy": "entropy",
    }
    told = [f"{short} {row[name]:.2f}" for name, short in names.items() if name in row]
    cut = row.get("response/truncated", 0.0)
    return "  ".join(told + [f"CUT OFF {cut:.0%}"] * (cut > 0.2))


@contextmanager
def _timed(clock: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    clock[name] = time.perf_counter() - start

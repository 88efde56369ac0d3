"""Training, to be read top to bottom: sample groups, verify, shape, update.

for each rollout step:
    groups = sample(problems)          # G responses to each
    groups = verify(groups)            # grades and outcomes
    groups = method.shaped(groups)     # diversity, shaping, selection, advantage
    replayed = method.replayed(state)  # groups of earlier steps, if the method replays any
    update(policy, groups, replayed)   # one optimizer step a mini-batch
"""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import torch
from tqdm import tqdm

from diver.core.progress import progress, progress_bar
from diver.core.run_folder import RunFolder
from diver.core.seeds import draw_indices, stream_seed
from diver.core.tables import counted
from diver.core.types import DiverError, Grade, Group, Progress, sampling_metrics, trained_on, without_surplus
from diver.evaluate.evaluate import Task, evaluate, metrics
from diver.grading import verify, with_keys
from diver.methods import check_replayed
from diver.recipe.recipe import Recipe
from diver.sample.hf import HFGenerator, sample_groups
from diver.sample.policy import load_policy, precision_note, weights_digest
from diver.sample.trajectories import Trajectories, playing
from diver.train import checkpoint
from diver.train.alerts import AlertLog
from diver.train.loggers import open_loggers
from diver.train.prepare import prepare_and_rehearse
from diver.train.stopping import stop_request
from diver.train.update import update

KS = (1, 4, 16, 64)  # values of k for Pass@k on the held-out problems

DECIDED = (Grade.CORRECT, Grade.WRONG, Grade.NO_ANSWER)  # grades that only a working verifier gives
# This many failures without any verdict stop the run. Fewer may be caused by the responses.
MANY_FAILURES = 8


class Trainer:
    """A training run: data, policy, generator and optimizer, and the loop over rollout steps."""

    def __init__(self, recipe: Recipe, folder: RunFolder) -> None:
        self.recipe, self.folder = recipe, folder
        self.method = recipe.method.limited(recipe.sample.max_tokens)
        self.schedule_steps = int(folder.config["schedule_steps"])
        saved = folder.checkpoints()
        if saved:
            checkpoint.check(saved[-1])
        self.train, self.eval_problems, _, self.notes = prepare_and_rehearse(recipe)
        self.policy = load_policy(recipe.model, saved[-1] if saved else None)
        self.decode = partial(self.policy.tokenizer.decode, skip_special_tokens=True)
        self.reference = None
        if self.method.loss.kl_coef:  # the policy before training, frozen, for the KL term
            self.reference = load_policy(recipe.model)
            self.reference.model.requires_grad_(False).eval()
        # AdamW allocates its two float32 moments after the generator has measured the free memory.
        moments = 8 * sum(p.numel() for p in self.policy.model.parameters())
        self.generator = HFGenerator(self.policy, recipe.model.path, recipe.sample.max_num_seqs, moments)
        self.sampler = playing(self.generator, self.train.problems, self.train.template)
        self.optimizer = torch.optim.AdamW(
            self.policy.model.parameters(),
            lr=recipe.train.learning_rate,
            betas=recipe.train.betas,
            weight_decay=recipe.train.weight_decay,
        )
        self.step = checkpoint.restore(saved[-1], self.policy, self.optimizer) if saved else 0
        self.state = checkpoint.read_state(saved[-1]) if saved else {}
        self.has_graded, self.early_grades = False, Counter[Grade | None]()
        self.start_cpu = 0.0  # CPU seconds of `_sample_start`, which count in the first step

    def run(self) -> None:
        """Train to the last step of the recipe; every step appends a row to metrics.jsonl."""
        folder, evaluation, steps = self.folder, self.recipe.evaluate, self.recipe.train.steps
        evaluates = bool(self.eval_problems.problems)
        folder.config.setdefault("notes", self.notes)
        folder.begin()
        folder.check_rows(0 if evaluates else 1, self.step)
        folder.keep_until(self.step)
        rows = folder.rows("metrics.jsonl")
        self.batches = sum(int(row.get("sample/batches", 0)) for row in rows)
        self.loggers = [AlertLog(rows), *open_loggers(self.recipe.log, folder.path, folder.config, self.step)]
        with ExitStack() as stack:
            for logger in self.loggers:
                stack.callback(logger.close)
            self._start()
            saver = checkpoint.Saver(folder, self.policy, self.optimizer, self.recipe.train, self.step, self.state)
            if evaluates and not self.step and not folder.steps():
                self._record(0, self._evaluate(0, evaluation.num_samples))
            if self.method.start_responses and not self.step:
                self._sample_start()
            stop = stack.enter_context(stop_request())
            bar = stack.enter_context(progress_bar(steps, "train", "step", done=self.step, keep=True))
            while self.step < steps:
                if stop.is_set():
                    saver.save(self.step)
                    stop.end(self.step, steps, folder.path)
                self.step += 1
                row = self._step(self.step, bar)
                is_last = self.step == steps
                if evaluates and (is_last or (evaluation.every and self.step % evaluation.every == 0)):
                    samples = evaluation.num_samples if is_last else evaluation.num_samples_in_training
                    row |= self._evaluate(self.step, samples, bar)
                self._record(self.step, row)
                if is_last or saver.due(self.step):
                    bar.set_description("save")
                    saver.save(self.step)
                bar.set_postfix_str(_status(row))
                bar.update()
            if evaluates and not folder.evaluated(steps, evaluation.num_samples):
                # The steps were part of a longer run, which was stopped and now ends here.
                row = self._evaluate(steps, evaluation.num_samples, bar)
                folder.add_to_row(steps, row)
                for logger in self.loggers:
                    logger.log(steps, row)

    def measured(self) -> tuple[float, float]:
        """Make two steps and an evaluation without saving a checkpoint.

        Returns:
            The seconds of the second step, and those of one response to every held-out problem.
        """
        self.folder.begin()
        self.batches, samples = 0, self.recipe.evaluate.num_samples_in_training
        evaluated = self._evaluate(0, samples)["time/evaluate"] if self.eval_problems.problems else 0.0
        if self.method.start_responses:
            self._sample_start()
        with progress_bar(2, "measure", "step") as bar:
            _, row = [self._step(step, bar) for step in (1, 2)]
        return sum(row[name] for name in row.keys() - {"time/cpu"} if name.startswith("time/")), evaluated / samples

    def _record(self, step: int, row: Mapping[str, float]) -> None:
        self.folder.append("metrics.jsonl", {"step": step, **row})
        for logger in self.loggers:
            logger.log(step, row)

    def _step(self, step: int, bar: tqdm) -> dict[str, float]:
        """One rollout step: sample, verify, shape, update; returns its metrics."""
        recipe, method = self.recipe, self.method
        progress = Progress(step - 1, self.schedule_steps)
        timings: dict[str, float] = {}
        start = time.process_time()
        verified = self._batch(step, progress, timings, bar)
        groups = trained_on(verified)
        batches = len(verified) // recipe.train.batch_size
        self.folder.write_rollouts(step, verified)
        replays = "replay" in method.needs
        sampled = [r for group in verified for r in group.rollouts if r.length]
        tokens = sum(r.length for r in sampled)
        with _timed(timings, "update", bar):
            replayed = None
            if replays:  # a step without sampled groups to train on has no update, so it replays nothing
                earlier_groups = method.replayed(self.state, recipe.train.batch_size, progress) if groups else []
                replayed = check_replayed(method, earlier_groups)
            for param_group in self.optimizer.param_groups:
                param_group["lr"] = recipe.train.learning_rate * min(1.0, step / max(1, recipe.train.warmup_steps))
            torch.manual_seed(stream_seed(recipe.run.seed, "dropout", step))  # for models with dropout
            update_metrics = update(
                self.policy,
                self.optimizer,
                groups,
                method.loss,
                recipe.train,
                temperature=recipe.sample.temperature,
                seed=stream_seed(recipe.run.seed, "choose", step),
                reference=self.reference,
                state=self.state,
                replayed=replayed,
                reweighed=method.reweighed,
            )
        return {
            **method.metrics(verified, progress),
            **sampling_metrics(verified),
            "policy/entropy": sum(r.entropy * r.length for r in sampled) / max(1, tokens),
            **update_metrics,
            **(method.replay.metrics(self.state) if replays else {}),
            **({"sample/batches": batches} if method.selection.filter_groups else {}),
            **timings,
            "time/cpu": time.process_time() - start + (self.start_cpu if step == 1 else 0.0),
        }

    def _batch(self, step: int, progress: Progress, timings: dict[str, float], bar: tqdm) -> list[Group]:
        """The sampled groups of a step after shaping. A selection of groups may take several batches."""
        train, sampling, seed = self.recipe.train, self.recipe.sample, self.recipe.run.seed
        selection = self.method.selection
        shaped: list[Group] = []
        for _ in range(selection.max_num_gen_batches if selection.filter_groups else 1):
            batch_number = step
            if selection.filter_groups:  # several batches a step: each takes the next problems of the epoch
                batch_number = self.batches = self.batches + 1
            index = draw_indices(batch_number, train.batch_size, len(self.train.problems), seed)
            size, sample_seed = sampling.group_size * selection.multiplier, stream_seed(seed, "sample", batch_number)
            batch = self._sampled(index, size, sample_seed, timings, bar)
            for attempt in range(selection.retries):
                unsolved = [i for i, group in enumerate(batch) if not self.method.correct(group).any()]
                if not unsolved:
                    break
                retry_seed = stream_seed(seed, "retry", batch_number, attempt)
                retried = self._sampled([index[i] for i in unsolved], size, retry_seed, timings, bar)
                for i, responses in zip(unsolved, retried, strict=True):
                    batch[i] = batch[i].joined(responses)
            with _timed(timings, "diversity", bar):
                shaped += self.method.shaped(batch, progress, self.decode, self.state)
            shaped, enough = without_surplus(shaped, train.batch_size)
            if enough:
                break
        return shaped

    def _sampled(
        self, index: Iterable[int], size: int, seed: int, timings: dict[str, float], bar: tqdm | None
    ) -> list[Group]:
        """Graded groups of the problems with these numbers."""
        sampling, index = self.recipe.sample, list(index)
        with _timed(timings, "sample", bar):
            batch = sample_groups(
                self.sampler,
                [self.train.problems[i] for i in index],
                [self.train.texts[i] for i in index],
                size,
                temperature=sampling.temperature,
                max_tokens=sampling.max_tokens,
                stop_token_ids=sampling.stop_token_ids,
                seed=seed,
                tokens=self.train.ids,
            )
        with _timed(timings, "verify", bar):
            if not isinstance(self.sampler, Trajectories):  # environments have graded their trajectories already
                batch = verify(batch, self.recipe.verify)
            if not self.has_graded:
                self._check_verifier(batch)
            return with_keys(batch) if "keys" in self.method.needs else batch

    def _sample_start(self) -> None:
        """Sample responses to every problem before training and enter them into the state of the method."""
        began = time.process_time()
        numbers, batch_size = range(len(self.train.problems)), self.recipe.train.batch_size
        for start in progress(numbers[::batch_size], "start", "batch"):
            seed = stream_seed(self.recipe.run.seed, "start", start)
            batch = self._sampled(numbers[start : start + batch_size], self.method.start_responses, seed, {}, None)
            for group in batch:
                self.method.update_start(group, self.state)
        self.start_cpu = time.process_time() - began

    def _check_verifier(self, batch: list[Group]) -> None:
        """DiverError if the verifier has failed on every response so far in this process, so nothing could be learned.

        Truncated responses do not count.
        """
        self.early_grades.update(rollout.grade for group in batch for rollout in group.rollouts)
        self.has_graded = any(self.early_grades[grade] for grade in DECIDED)
        failed, total = self.early_grades[Grade.ERROR] + self.early_grades[Grade.TIMEOUT], self.early_grades.total()
        if not self.has_graded and failed >= min(total, MANY_FAILURES):
            verifiers = ", ".join(sorted({group.problem.verifier for group in batch}))
            cut = f"; {total - failed} others were cut off at the length limit" if failed < total else ""
            raise DiverError(f"verifier {verifiers}: failed on all {failed} responses{cut}; the log above says how")

    def _evaluate(self, step: int, samples: int, bar: tqdm | None = None) -> dict[str, float]:
        """Pass@k on the held-out problems, also written to eval/step_NNNN.json.

        Every evaluation has the same random streams, so an unchanged policy has unchanged results. Each response is
        stored when it is sampled, so a killed evaluation of the same weights resumes where it stopped.
        """
        recipe, timings = self.recipe, dict[str, float]()
        variables = dict(recipe.model.chat_template_kwargs)
        problems, model = self.eval_problems.problems, weights_digest(self.policy.model)
        task = Task(
            name=Path((recipe.evaluate.source or recipe.data).path).stem,
            problems=problems,
            template=self.eval_problems.template,
            temperature=recipe.evaluate.temperature,
            max_tokens=recipe.sample.max_tokens,
            stop_token_ids=recipe.sample.stop_token_ids,
            samples=samples,
            ks=[k for k in KS if k <= samples],
            seed=recipe.run.seed,
            keys={problem.id: model for problem in problems},
            info={"generator": "transformers"} | ({"chat_template_kwargs": variables} if variables else {}),
        )
        when = {0: "before training", recipe.train.steps: "after training"}.get(step, f"after step {step}")
        with (
            _timed(timings, "evaluate", bar),
            self.folder.evaluation_log(step, "generations") as generations,
            self.folder.evaluation_log(step, "grades") as grades,
        ):
            result = evaluate(
                task,
                lambda: self.generator,
                generations,
                grades,
                verification=recipe.verify,
                log=lambda line: tqdm.write(f"{when}: {line}"),
            )
        header = {"step": step, "model": recipe.model.path, "benchmark": task.name}
        self.folder.write_evaluation(step, {**header, **result})
        return {**metrics(result), **timings}

    def _start(self) -> None:
        """Log the notes on the data and the first rendered prompt, or the step from which the run resumes."""
        for note in (*self.notes, precision_note(self.recipe.model, self.policy.model)):
            if note:
                tqdm.write(note)
        if self.step:
            tqdm.write(f"{self.folder.path}: resuming after step {self.step}")
        elif self.recipe.train.steps:
            tqdm.write(f"first prompt:\n{self.train.texts[0]}\n")
        steps, planned = self.recipe.train.steps, self.schedule_steps
        coef, end_coef = (self.method.shaping_coef(Progress(step, planned)) for step in (planned, steps))
        if steps > planned and coef == end_coef:  # a schedule in steps continues beyond the planned end
            notice = f"schedules run over the {counted(planned, 'step')} with which this run began"
            tqdm.write(f"{notice}; lambda then stays at {coef:g}")


def _status(row: Mapping[str, float]) -> str:
    names = (("reward/outcome", "reward"), ("diversity/textual", "TD"), ("diversity/equational", "ED"))
    parts = [f"{short} {row[name]:.2f}" for name, short in (*names, ("policy/entropy", "entropy")) if name in row]
    truncated = row.get("response/truncated", 0.0)
    return "  ".join(parts + [f"TRUNCATED {truncated:.0%}"] * (truncated > 0.2))  # the limit of the alert


@contextmanager
def _timed(timings: dict[str, float], phase: str, bar: tqdm | None = None) -> Iterator[None]:
    """Show the phase on the bar and add its seconds to time/<phase>."""
    if bar is not None:
        bar.set_description(phase)
    start = time.perf_counter()
    yield
    timings[f"time/{phase}"] = timings.get(f"time/{phase}", 0.0) + time.perf_counter() - start

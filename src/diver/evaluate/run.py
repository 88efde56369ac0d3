"""`diver eval`: evaluate a model on benchmarks in a folder, from which it can be resumed."""

import dataclasses
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from diver.core.extras import provenance, require
from diver.core.figures import write_pass_curves
from diver.core.files import lock, to_json, write_text
from diver.core.seeds import digest, fingerprint
from diver.core.settings import parse_ks
from diver.core.types import DiverError, Problem
from diver.evaluate.comparison import digests, other_problems
from diver.evaluate.config import EvalConfig
from diver.evaluate.evaluate import Task, evaluate, problem_digest
from diver.evaluate.results import ResultFolder, benchmark_table, estimate, read_results, table_of
from diver.grading.grading import DEFAULT, grader_for
from diver.grading.settings import Verification
from diver.recipe.data import POLICIES
from diver.recipe.sections import Model
from diver.sample.base import Generator
from diver.sample.endpoint import Endpoint, EndpointGenerator
from diver.tasks import hub
from diver.tasks.benchmarks import Loaded, load
from diver.tasks.templates import TEMPLATES, chat_template_for, check_used, prompted
from diver.tasks.testbeds import policy_folder

SECRET = re.compile(r"(key|token|secret|password|authorization)$", re.IGNORECASE)


def run(
    config: EvalConfig,
    log: Callable[[str], Any] = print,
    benchmarks: Sequence[Loaded] | None = None,
    policy: Model | None = None,
    verification: Verification = DEFAULT,
) -> Path:
    """Run the missing parts of an evaluation; returns its folder.

    `benchmarks` replace those of the settings. `policy` has more settings of the model than --model.
    """
    require("scipy", "matplotlib")  # the table and the curves at the end need them
    show, log = log, config.notes(log)
    generator = sampler(config, policy)
    out = config.out or Path("runs/eval") / generator.model.replace("/", "--")
    results, all_results = evaluate_model(config, generator, benchmarks, out, verification, log)
    table, text = table_of(all_results), benchmark_table(all_results)
    with lock(out, wait=True):
        write_text(out / "table.md", text)
        curves = {r["title"]: {k: estimate(r, f"pass@{k}") for k in r["k"]} for r in all_results.values()}
        written = [*config.write(table, out), *write_pass_curves(curves, *config.figure_paths(out, "pass_at_k"))]
    config.show(table, f"\n{text}", show)
    for name, result in results.items():
        log(f"{name}: " + ", ".join(f"{count} {grade}" for grade, count in result["grades"].items()))
        if result["unscored"]:
            total = result["problems"]
            passed = {k: result["estimates"][f"pass@{k}"]["problems"] for k in result["k"]}
            coverage = [f"; Pass@{k} covers {n or 'none'} of {total} problems" for k, n in passed.items() if n < total]
            message = f"{name}: {result['unscored']} responses are unscored: left out, not counted as wrong"
            log(message + "".join(coverage))
    log(f"results: {', '.join([f'{out}/results.json', 'table.md', *(path.name for path in written)])}")
    return out


def evaluate_model(
    config: EvalConfig,
    generator: "SamplerHandle",
    benchmarks: Sequence[Loaded] | None,
    out: Path,
    verification: Verification = DEFAULT,
    log: Callable[[str], Any] = lambda line: None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The missing parts of the evaluation of one model in the folder `out`.

    Returns:
        The results of the benchmarks by name, and all results of the folder, which results.json has.
    """
    tasks = make_tasks(config, generator, benchmarks)
    file = out / "results.json"
    with ResultFolder(out, generator.model, provenance()) as folder:
        earlier = read_results(file)["benchmarks"] if file.exists() else {}
        for task in tasks:
            _check_same_problems(file, earlier.get(task.name), task)
        results = {}
        for task in tasks:
            if config.skip_long_prompts:
                task = _skip_long_prompts(task, generator, config.extra_options.get("max_model_len"))
            of_graders = sorted({grader_for(problem, task.grader).note for problem in task.problems} - {""})
            for note in [*task.info["source"]["notes"], *of_graders]:
                log(note)
            prompting = f"{task.name}: template {task.template!r}, temperature {task.temperature}"
            log(f"{prompting}, up to {task.max_tokens:,} tokens a response")
            with (
                folder.log("generations", task.name) as generations,
                folder.log("grades", f"{task.name}.{task.grader}") as grades,
            ):
                results[task.name] = evaluate(
                    task, generator.open, generations, grades, verification=verification, log=log
                )
        merged = {**earlier, **results}
        titles = Counter(result["title"] for result in merged.values())
        merged = {name: {**r, "title": name if titles[r["title"]] > 1 else r["title"]} for name, r in merged.items()}
        write_text(file, to_json({"model": generator.model, "benchmarks": merged}, indent=1) + "\n")
    return results, merged


def _check_same_problems(file: Path, earlier: Mapping[str, Any] | None, task: Task) -> None:
    """DiverError if the results of another file of the same name would be replaced. It may have more or fewer
    problems."""
    path = task.info["source"]["path"]
    if earlier is None or earlier.get("source", {}).get("path", path) == path:
        return
    before, now = digests(earlier), {problem.id: problem_digest(problem) for problem in task.problems}
    if other_problems(before, now) or not (before.keys() <= now.keys() or now.keys() <= before.keys()):
        raise DiverError(
            f"{file}: has results of {task.name!r} with other problems, from {earlier['source']['path']!r}, and they "
            f"would be replaced by those of {path!r}; choose another --out"
        )


# ---- the generator: its model has a name before it is loaded, and is loaded only if a response is missing


class SamplerHandle(NamedTuple):
    """A generator that is not loaded yet: `model` is the permanent name of its model; `open` loads it."""

    model: str
    open: Callable[[], Generator]
    policy: Model | None = None
    """The folder of the model's configuration and tokenizer; None if only the server has them."""

    def template(self, problems: Sequence[Problem]) -> str:
        """The template of a chat model for these problems. DiverError for a model without a chat template."""
        from diver.sample.policy import load_configuration

        if self.policy and not load_configuration(self.policy).tokenizer.chat_template:
            names = ", ".join(TEMPLATES)
            raise DiverError(f"--template: {self.policy.path!r} has no chat template; choose one of {names}")
        return chat_template_for(problems)


def named_model(path: str) -> Model:
    """One thread for a bundled policy: its matrix products are too small to be parallelised."""
    return Model(path=path, threads=int(path in POLICIES))


def sampler(config: EvalConfig, policy: Model | None = None) -> SamplerHandle:
    """The generator of the settings, loaded at most once. `policy` has more settings of the model than --model."""
    if not config.model:
        names = ", ".join(POLICIES)
        raise DiverError(f"--model: name a folder, a hub name, or a bundled policy ({names}); or give a run folder")
    policy = policy or named_model(config.model)
    if config.template_variables:
        policy = dataclasses.replace(policy, chat_template_kwargs=config.template_variables)
    if config.generator == "endpoint":  # the name identifies the model, not the server
        return SamplerHandle(policy.path, cache(lambda: load_generator(config, policy, policy.path, policy.path)))
    path, bundled = policy.path, policy_folder(policy.path)
    folder = bundled or Path(path).expanduser()
    if folder.is_dir():
        name, path = f"{path if bundled else folder.resolve().name}@{fingerprint(folder)}", str(folder)
    else:
        name = f"{path}@{hub.newest_commit(path, 'model', policy.revision) or 'offline'}"
    if config.generator in ("vllm", "tree"):  # other arithmetic, or other random streams, so another name
        name = f"{name}-{config.generator}"
    return SamplerHandle(name, cache(lambda: load_generator(config, policy, path, name)), policy)


def load_generator(config: EvalConfig, policy: Model, path: str, name: str) -> Generator:
    """The generator of the settings, with its model at `path`.

    With vLLM, --extra has options of its engine. They are not part of the keys of stored rows: most options, such as
    tensor_parallel_size, do not change responses, and an evaluation may resume with others. Options that change
    responses, such as quantization or max_model_len, need another --out.

    Raises:
        DiverError: The model cannot be loaded, the server does not answer, or vLLM does not take an option.
    """
    if config.generator == "endpoint":
        settings = Endpoint(
            url=config.url or Endpoint.url,
            model=path,
            extra=config.extra_options,
            concurrency=config.max_num_seqs or Endpoint.concurrency,
            timeout=config.timeout,
            retries=config.retries,
            skip_refused=True,
        )
        return EndpointGenerator(settings)
    if config.generator == "vllm":
        from diver.sample.vllm import VLLMGenerator

        revision = {"revision": policy.revision, "tokenizer_revision": policy.revision} if policy.revision else {}
        try:
            return VLLMGenerator(path, name, policy.chat_template_kwargs, **revision, **config.extra_options)
        except TypeError as error:  # vLLM checks its own options
            if not config.extra_options:
                raise
            reason = hub.one_line(error)
            raise DiverError(f"--extra {config.extra}: vLLM's engine does not take it ({reason})") from None
    from diver.sample.hf import HFGenerator
    from diver.sample.policy import load_policy

    loaded = load_policy(policy, inference=True)
    if config.generator == "tree":
        from diver.sample.prefix_tree import PrefixTreeGenerator

        return PrefixTreeGenerator(loaded, name, seed=config.seed or 0)
    return HFGenerator(loaded, name, config.max_num_seqs)


def sampler_metadata(config: EvalConfig) -> dict[str, Any]:
    """The generator and its options, without secrets: for results.json."""
    extra = json.loads(
        json.dumps(config.extra_options),
        object_hook=lambda table: {k: "(hidden)" if SECRET.search(k) else v for k, v in table.items()},
    )
    if config.generator != "endpoint":
        return {"generator": config.generator, **({"extra": extra} if extra else {})}
    url = urlsplit(config.url or Endpoint.url)
    host = url.netloc.rpartition("@")[2]
    return {"generator": config.generator, "url": f"{url.scheme}://{host}{url.path}", "extra": extra}


# ---- the tasks


def make_tasks(config: EvalConfig, model: SamplerHandle, benchmarks: Sequence[Loaded] | None = None) -> list[Task]:
    """Tasks of `benchmarks`, by default those of the settings. DiverError for one that cannot be evaluated."""
    names = [name for item in config.benchmarks.split(",") if (name := item.strip())] or ["countdown"]
    loaded = [load(name, config.seed or 0, config.limit) for name in names] if benchmarks is None else benchmarks
    tasks = [_task(config, benchmark, model) for benchmark in loaded]
    if repeated := [name for name, n in Counter(task.name for task in tasks).items() if n > 1]:
        raise DiverError(f"--benchmarks: {repeated[0]!r} is given twice")
    return tasks


def _task(config: EvalConfig, loaded: Loaded, model: SamplerHandle) -> Task:
    if not loaded.problems:
        raise DiverError(f"{loaded.benchmark.name}: no problems are left")
    flags = {field: getattr(config, field) for field in ("template", "temperature", "max_tokens", "grader")}
    benchmark = dataclasses.replace(
        loaded.benchmark, **{field: value for field, value in flags.items() if value not in ("", None)}
    )
    for problem in loaded.problems:
        grader_for(problem, benchmark.grader).check(problem, f"{benchmark.name}: ")
    template = benchmark.template or model.template(loaded.problems)
    check_used(config.template_variables, template, loaded.problems, "--chat-template-kwargs")
    # Variables of the model's chat template; they are sent to an endpoint.
    template_kwargs = dict(model.policy.chat_template_kwargs) if model.policy else {}
    variables = {"chat_template_kwargs": template_kwargs} if template_kwargs else {}
    ks = parse_ks(config.k)
    greedy = benchmark.temperature == 0
    samples = 1 if greedy else config.samples or max([benchmark.samples, *ks])
    if max([config.samples or 1, *ks]) > samples:
        few = f"k = {max(ks, default=1)} needs more than {samples} samples; raise --samples"
        one = "temperature 0 is greedy: one response a problem; omit --samples and --k"
        raise DiverError(f"{benchmark.name}: {one if greedy else few}")
    # Responses of the prefix tree depend on all prompts and on their number.
    tree = {"tree": [samples, digest(*(p.prompt for p in loaded.problems))]} if config.generator == "tree" else {}
    depends_on = {
        **tree,
        "model": model.model,
        "template": dataclasses.asdict(TEMPLATES[template]),
        **variables,
        "temperature": benchmark.temperature,
        "max_tokens": benchmark.max_tokens,
        **({"stop_token_ids": config.stop_token_ids} if config.stop_token_ids else {}),
        "seed": config.seed or 0,
        "extra": config.extra_options if config.generator == "endpoint" else {},  # those of vLLM: see load_generator
    }
    return Task(
        name=benchmark.name,
        problems=loaded.problems,
        template=template,
        temperature=benchmark.temperature,
        max_tokens=benchmark.max_tokens,
        stop_token_ids=config.stop_token_ids,
        samples=samples,
        ks=ks or [1 << i for i in range(samples.bit_length())],
        seed=config.seed or 0,
        grader=benchmark.grader,
        keys={p.id: digest(depends_on, p.prompt) for p in loaded.problems},
        info={
            "title": benchmark.title,
            "domain": benchmark.domain,
            "source": {"path": benchmark.source.path, "notes": loaded.notes},
            "skipped": 0,
            "random_baseline": loaded.random_baseline,
            **variables,
            **sampler_metadata(config),
        },
    )


def _skip_long_prompts(task: Task, model: SamplerHandle, context: int | None) -> Task:
    """The task without the problems whose prompts fill `context`, by default the number of positions of the model."""
    from diver.sample.policy import load_configuration, positions

    if model.policy is None:
        raise DiverError("--skip-long-prompts: an endpoint does not report the length of prompts; omit this flag")
    policy = load_configuration(model.policy)
    longest = (context or positions(policy.config) or sys.maxsize) - 1
    usable = prompted(task.problems, task.template, policy.tokenizer, longest)
    if not usable.problems:
        raise DiverError(f"{task.name}: no prompt fits into the context of {model.model}; choose another --template")
    source = task.info["source"]
    if usable.skipped:
        note = f"{task.name}: {usable.skipped} of {len(task.problems)} problems are skipped, their prompts are too long"
        source = {**source, "notes": [*source["notes"], note]}
    info = {**task.info, "source": source, "skipped": usable.skipped}
    return dataclasses.replace(task, problems=usable.problems, info=info)

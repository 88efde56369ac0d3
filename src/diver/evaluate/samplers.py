"""The generator of an evaluation, by name. A model is named before it is loaded: if nothing is missing, it never is."""

import dataclasses
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from diver.core.seeds import fingerprint
from diver.core.types import DiverError, Problem
from diver.evaluate.config import EvalConfig
from diver.recipe.data import POLICIES
from diver.recipe.sections import Model
from diver.sample.base import Generator
from diver.sample.endpoint import Endpoint, EndpointGenerator
from diver.tasks import hub
from diver.tasks.templates import TEMPLATES, chat_template_for
from diver.tasks.testbeds import policy_folder

SECRET = re.compile(r"(key|token|secret|password|authorization)$", re.IGNORECASE)


class SamplerHandle(NamedTuple):
    """A generator that is not loaded yet: `model` is the permanent name of its model; `open` loads it."""

    model: str
    open: Callable[[], Generator]
    policy: Model | None = None
    """Where the model's configuration and tokenizer are; None where only the server knows."""

    def template(self, problems: Sequence[Problem]) -> str:
        """That of a chat model for these problems; DiverError for a model without a chat template."""
        from diver.sample.policy import load_configuration

        if self.policy and not load_configuration(self.policy).tokenizer.chat_template:
            names = ", ".join(TEMPLATES)
            raise DiverError(f"--template: {self.policy.path!r} has no chat template; choose one of {names}")
        return chat_template_for(problems)


def resolve(policy: Model) -> tuple[str, str]:
    """The path of a model (a folder, a hub name, or a bundled policy), and its permanent name."""
    model = policy.path
    bundled = policy_folder(model)
    folder = bundled or Path(model).expanduser()
    if folder.is_dir():
        return str(folder), f"{model if bundled else folder.resolve().name}@{fingerprint(folder)}"
    return model, f"{model}@{hub.newest_commit(model, 'model', policy.revision) or 'offline'}"


def transformers(config: EvalConfig, policy: Model) -> SamplerHandle:
    """In this process."""
    _, name = resolve(policy)

    def load() -> Generator:
        from diver.sample.hf import HFGenerator
        from diver.sample.policy import load_policy

        return HFGenerator(load_policy(policy, inference=True), name, config.max_num_seqs)

    return SamplerHandle(name, load, policy)


def vllm(config: EvalConfig, policy: Model) -> SamplerHandle:
    """vLLM in this process; other arithmetic, so another name. --extra has options of its engine.

    They are not part of the keys of stored rows: most say how the work is done, as tensor_parallel_size does, and
    another may resume. Those that change responses, such as quantization or max_model_len, need an --out of their own.
    """
    path, name = resolve(policy)
    revision = {"revision": policy.revision, "tokenizer_revision": policy.revision} if policy.revision else {}
    name = f"{name}-vllm"

    def load() -> Generator:
        from diver.sample.vllm import VLLMGenerator

        try:
            return VLLMGenerator(path, name, policy.chat_template_kwargs, **revision, **config.extra_options)
        except TypeError as error:  # vLLM checks its own options
            if not config.extra_options:
                raise
            reason = hub.one_line(error)
            raise DiverError(f"--extra {config.extra}: vLLM's engine does not take it ({reason})") from None

    return SamplerHandle(name, load, policy)


def endpoint(config: EvalConfig, policy: Model) -> SamplerHandle:
    """Any server that speaks OpenAI's protocol; it is the model that is named, not the server."""
    settings = Endpoint(
        url=config.url or Endpoint.url,
        model=policy.path,
        extra=config.extra_options,
        concurrency=config.max_num_seqs or Endpoint.concurrency,
        timeout=config.timeout,
        retries=config.retries,
        skip_refused=True,
    )
    return SamplerHandle(policy.path, lambda: EndpointGenerator(settings))


GENERATORS = {"transformers": transformers, "vllm": vllm, "endpoint": endpoint}


def sampler(config: EvalConfig, policy: Model | None = None) -> SamplerHandle:
    """The generator that the settings name, loaded at most once; `policy` says more of the model than --model."""
    if not config.model:
        names = ", ".join(POLICIES)
        raise DiverError(f"--model: name a folder, a hub name, or a bundled policy ({names}); or give a run folder")
    # One thread for a bundled policy: its matrix products are too small to be parallelised.
    policy = policy or Model(path=config.model, threads=int(config.model in POLICIES))
    if config.template_variables:
        policy = dataclasses.replace(policy, chat_template_kwargs=config.template_variables)
    handle = GENERATORS[config.generator](config, policy)
    return handle._replace(open=functools.cache(handle.open))


def sampler_metadata(config: EvalConfig) -> dict[str, Any]:
    """The generator and its options, without secrets: for results.json."""
    extra = _without_secrets(config.extra_options)
    if config.generator != "endpoint":
        return {"generator": config.generator, **({"extra": extra} if extra else {})}
    url = urlsplit(config.url or Endpoint.url)
    host = url.netloc.rpartition("@")[2]
    return {"generator": config.generator, "url": f"{url.scheme}://{host}{url.path}", "extra": extra}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "(hidden)" if SECRET.search(k) else _without_secrets(v) for k, v in value.items()}
    return [_without_secrets(v) for v in value] if isinstance(value, list) else value

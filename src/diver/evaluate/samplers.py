"""Which sampler draws, by name. A model is named before it is loaded: where nothing is left to draw, it never is."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from diver.data import countdown, hub
from diver.evaluate.plan import Plan
from diver.generate.base import EmbeddedGenerator, Generator
from diver.types import DiverError

SECRET = re.compile(r"(key|token|secret|password|authorization)$", re.IGNORECASE)
END = 1 << 20  # bytes hashed at either end of a file: enough to tell checkpoints apart, fast for any size


class Drawing(NamedTuple):
    """`model` names the model for good; `open` loads it, once."""

    model: str
    open: Callable[[], Generator]


def fingerprint(folder: Path) -> str:
    """8 digits that change with the weights, configuration and tokenizer of a model folder."""
    known = hashlib.blake2b(digest_size=4)
    for path in sorted(p for p in folder.iterdir() if p.suffix in (".json", ".safetensors", ".bin", ".model")):
        with path.open("rb") as file:
            size = path.stat().st_size
            known.update(f"{path.name} {size} ".encode() + file.read(END))
            file.seek(max(END, size - END))
            known.update(file.read(END))
    return known.hexdigest()


def known(model: str) -> tuple[str, str]:
    """Where a model is (a folder, a hub name, or `countdown` for the bundled policy), and its name for good."""
    folder = countdown.policy_folder() if model == "countdown" else Path(model).expanduser()
    if folder.is_dir():
        return str(folder), f"{model if model == 'countdown' else folder.resolve().name}@{fingerprint(folder)}"
    return model, f"{model}@{hub.newest_commit(model, 'model') or 'offline'}"


def embedded(plan: Plan, model: str) -> Drawing:
    """In this process."""
    _, name = known(model)

    @functools.cache
    def load() -> Generator:
        from diver.config.sections import Model
        from diver.generate.hf import EmbeddedSampler
        from diver.generate.policy import load_policy

        # One thread for the bundled policy: its products are too small to be worth sharing.
        policy = load_policy(Model(path=model, threads=1 if model == "countdown" else 0))
        sampler = EmbeddedSampler(policy.model, policy.tokenizer, policy.precision)
        return EmbeddedGenerator(name, sampler, policy.tokenizer, policy.context, plan.rows)

    return Drawing(name, load)


def offline(plan: Plan, model: str) -> Drawing:
    """vLLM in this process; other arithmetic, so another name. --extra has options of its engine.

    Rows are not known by these. Most say how the machine does the work, as tensor_parallel_size does, and another machine
    must be able to go on; nothing tells them from those that change responses, such as quantization or max_model_len,
    which want an --out of their own.
    """
    path, name = known(model)
    name = f"{name}-vllm"

    @functools.cache
    def load() -> Generator:
        from diver.generate.vllm import OfflineGenerator

        try:
            return OfflineGenerator(path, name, **plan.body)
        except TypeError as error:  # the engine knows its options itself
            if not plan.body:
                raise
            raise DiverError(f"--extra {plan.extra}: vLLM's engine does not take it ({hub.one_line(error)})") from None

    return Drawing(name, load)


def endpoint(plan: Plan, model: str) -> Drawing:
    """Any server that speaks OpenAI's protocol; it is the model that is named, not the server."""

    @functools.cache
    def connect() -> Generator:
        from diver.generate.endpoint import Endpoint, EndpointGenerator

        settings = Endpoint(url=plan.url or Endpoint.url, model=model, extra=plan.body)
        return cast(Generator, EndpointGenerator(settings))

    return Drawing(model, connect)


SAMPLERS: dict[str, Callable[[Plan, str], Drawing]] = {
    "embedded": embedded,
    "vllm": offline,
    "endpoint": endpoint,
}


def asked_of(plan: Plan) -> dict[str, Any]:
    """Which sampler, and how it was asked, without whatever of it may be secret: for results.json."""
    extra = _without_secrets(plan.body)
    if plan.sampler != "endpoint":
        return {"sampler": plan.sampler, **({"extra": extra} if extra else {})}
    from diver.generate.endpoint import Endpoint

    url = urlsplit(plan.url or Endpoint.url)
    at = url.netloc.rpartition("@")[2]
    return {"sampler": plan.sampler, "url": f"{url.scheme}://{at}{url.path}", "extra": extra}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "(hidden)" if SECRET.search(k) else _without_secrets(v) for k, v in value.items()}
    return [_without_secrets(v) for v in value] if isinstance(value, list) else value


def drawing(plan: Plan, model: str) -> Drawing:
    """By the sampler of a plan; `model` is the plan's, or the path of the named model that it names."""
    if plan.sampler not in SAMPLERS:
        raise DiverError(f"--sampler: unknown {plan.sampler!r}; choose one of {', '.join(SAMPLERS)}")
    if not model:
        raise DiverError("--model: name a folder, a hub name, or 'countdown' for the bundled policy")
    return SAMPLERS[plan.sampler](plan, model)

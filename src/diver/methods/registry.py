"""Methods by name, and a method from its name and settings.

`method.name = "package.module:Class"` names your own subclass of `Method`; `method.loss.name` your own loss. An
installed package adds a name by an entry point of the group `diver.methods`.
"""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from diver.core.extras import added, check_studies
from diver.core.settings import choose, import_object, merge, read
from diver.core.types import DiverError
from diver.diversity import resolve
from diver.losses import LOSSES, PolicyLoss
from diver.methods.base import Method
from diver.methods.grpo import Grpo

ADDED = "methods"  # the kind of entry points
CLASSES = {
    "grpo": "diver.methods.grpo:Grpo",
    "clip-higher": "diver.methods.grpo:ClipHigher",
    "dapo": "diver.methods.dapo:Dapo",
    "pass-at-k": "diver.methods.pass_at_k:PassAtK",
    "max-at-k": "diver.methods.max_at_k:MaxAtK",
    "max-rl": "diver.methods.grpo:MaxRl",
    "verified-replay": "diver.methods.verified_replay:VerifiedReplay",
    "dph-rl": "diver.methods.dph_rl:DphRl",
    "dr-grpo": "diver.methods.grpo:DrGrpo",
    "rs-grpo": "diver.methods.rs_grpo:RsGrpo",
    "qae": "diver.methods.qae:Qae",
    "pkpo": "diver.methods.pkpo:Pkpo",
    "f-grpo": "diver.methods.difficulty_weight:FGrpo",
    "difficulty-weight": "diver.methods.difficulty_weight:DifficultyWeight",
    "w-reinforce": "diver.methods.w_reinforce:WReinforce",
    "psr": "diver.methods.w_reinforce:Psr",
    "nsr": "diver.methods.w_reinforce:Nsr",
    "unlikeliness": "diver.methods.unlikeliness:Unlikeliness",
    "ucpo": "diver.methods.ucpo:Ucpo",
    "darling": "diver.methods.darling:Darling",
    "evol-rl": "diver.methods.evol_rl:EvolRl",
    "dra-grpo": "diver.methods.dra_grpo:DraGrpo",
    "rep-exp": "diver.methods.rep_exp:RepExp",
    "entropy-bonus": "diver.methods.grpo:EntropyBonus",
    "siren": "diver.methods.siren:Siren",
    "diver-mix": "diver.methods.diver:DiverMix",
    "diver-td": "diver.methods.diver:DiverTd",
    "diver-ed": "diver.methods.diver:DiverEd",
    "diver-annealed": "diver.methods.diver:DiverAnnealed",
    "diver-actions": "diver.methods.diver:DiverActions",
    "gigpo": "diver.methods.gigpo:Gigpo",
}
"""The methods of this package that have a class, which is imported when the method is used."""
LOSS_METHODS = {name: loss for name, loss in LOSSES.items() if name not in CLASSES and name != Grpo().loss.name}
"""The losses that are methods by themselves: the method is GRPO with this loss and has its name."""
DEFAULT = "diver-mix"


class Methods(Mapping[str, Callable[[], Method]]):
    """Name -> function that makes the method with its defaults.

    The names are those of CLASSES, of the losses that are a method by themselves, and of installed packages.
    """

    def __getitem__(self, name: str) -> Callable[[], Method]:
        if name in CLASSES:
            return import_object(CLASSES[name], "method.name")
        if name in LOSS_METHODS:
            return partial(Grpo, name=name, loss=LOSS_METHODS[name]())
        path = added(ADDED)[name].value
        return checked(import_object(path, f"method.name = {name!r}"), path, Method, "method.name")

    def __iter__(self) -> Iterator[str]:
        return iter({**CLASSES, **LOSS_METHODS, **added(ADDED)})

    def __len__(self) -> int:
        return sum(1 for _ in self)


METHODS = Methods()


T = TypeVar("T")


def method_named(name: str = DEFAULT, **tables: Any) -> Method:
    """The method of that name with its settings: `method_named("diver-td", shaping={"coef": 0.5})`.

    Args:
        name: a name of `METHODS`, or "package.module:Class".
        tables: settings by key, nested as in a recipe. Tables are merged key by key, `diversity_rewards` too: weight 0
            removes a metric from DIVER-MIX. With `frame="common"` the defaults are those of the comparison of methods.

    Raises:
        DiverError: a name or a key is unknown, a type is wrong or a value is out of range. The message names the dotted
            key and the choices.
    """
    default = _find(name, METHODS, Method, "method.name")()
    if tables.get("frame") == "common":
        default = default.in_common_frame()
    loss_table = tables.pop("loss", {})
    if not isinstance(loss_table, Mapping):
        raise DiverError(f"method.loss: is a table; its name is method.loss.name = {loss_table!r:.60}")
    loss = _loss(default, dict(loss_table))
    method = dataclasses.replace(default, loss=loss)
    for key in tables.keys() - {field.name for field in dataclasses.fields(default)}:
        if owners := [n for n in METHODS if key in {field.name for field in dataclasses.fields(METHODS[n]())}]:
            raise DiverError(f"method.{key}: {name} has no {key}; {', '.join(owners[:3])} have one")
    if tables or default.name != name:  # the defaults of a class need no check, which would import pydantic
        table = merge({k: v for k, v in dataclasses.asdict(default).items() if k != "loss"}, {**tables, "name": name})
        method = dataclasses.replace(read(type(default), table, "method"), loss=loss)
    if method.threshold <= 0:
        raise DiverError(f"method.threshold: must be above 0, the outcome of a wrong response, not {method.threshold}")
    for metric in method.extra_metrics:
        resolve(metric, method.diversity)
    if (loss.selects_tokens or loss.needs_entropy) and "replay" in method.needs:
        raise DiverError(
            f"method.replay: the loss {loss.name!r} compares the tokens of sampled responses with each other, and "
            "replayed ones are not among them; choose another method, or method.loss.name = 'clip'"
        )
    if method.selection.retries and not method.any_size:
        raise DiverError(f"method.selection.retries: {name} needs groups of one size, and retried ones are larger")
    if method.outcomes_only and method.overlong:
        raise DiverError(f"method.overlong: {name} has advantages of outcomes alone, so a penalty has no effect")
    return method


def _loss(method: Method, table: dict[str, Any]) -> PolicyLoss:
    base = method.loss
    if not table and type(base) is LOSSES.get(base.name):
        return base
    if (name := table.pop("name", base.name)) != base.name:
        base = _find(name, LOSSES, PolicyLoss, "method.loss.name")()
        base = base.in_common_frame() if method.frame == "common" else base
    return read(type(base), merge(dataclasses.asdict(base), {**table, "name": name}), "method.loss")


def _find(name: str, loaders: Mapping[str, Callable[[], T]], base: type[T], where: str) -> Callable[[], T]:
    if not isinstance(name, str):
        raise DiverError(f"{where}: must be a name, not {name!r:.60}")
    if ":" in name:
        return checked(import_object(name, where), name, base, where)
    if name not in loaders:
        if base is Method:
            check_studies(ADDED, name, f"{where} = {name!r}")
        choose(name, loaders, where)
    return loaders[name]


def checked(cls: Any, path: str, base: type[T], where: str) -> type[T]:
    """`cls`, imported from `path`. DiverError if it is no subclass of `base` with settings."""
    if not (isinstance(cls, type) and issubclass(cls, base) and "__pydantic_config__" in vars(cls)):
        raise DiverError(f"{where}: {path!r} is not a subclass of {base.__name__} decorated with @settings")
    return cls

"""Methods by name, and a method from its name and settings.

`method.name = "package.module:Class"` names your own subclass of `Method`; `method.loss.name` your own loss.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from diver.core.settings import choose, import_object, merge, read
from diver.core.types import DiverError
from diver.diversity import resolve
from diver.losses import LOSSES, PolicyLoss
from diver.methods.base import Method
from diver.methods.contrib import CONTRIB
from diver.methods.dapo import Dapo
from diver.methods.darling import Darling
from diver.methods.difficulty_weight import DifficultyWeight, FGrpo
from diver.methods.diver import DiverActions, DiverAnnealed, DiverEd, DiverMix, DiverTd
from diver.methods.dra_grpo import DraGrpo
from diver.methods.evol_rl import EvolRl
from diver.methods.gigpo import Gigpo
from diver.methods.grpo import ClipHigher, DrGrpo, EntropyBonus, Grpo, MaxRl
from diver.methods.max_at_k import MaxAtK
from diver.methods.pass_at_k import PassAtK
from diver.methods.pkpo import Pkpo
from diver.methods.qae import Qae
from diver.methods.rep_exp import RepExp
from diver.methods.rs_grpo import RsGrpo
from diver.methods.siren import Siren
from diver.methods.ucpo import Ucpo
from diver.methods.unlikeliness import Unlikeliness
from diver.methods.verified_replay import VerifiedReplay
from diver.methods.w_reinforce import Nsr, Psr, WReinforce


def only_loss(name: str) -> Callable[[], Method]:
    """The method that is GRPO with the loss of that name."""
    return partial(Grpo, name=name, loss=LOSSES[name]())


def _named(*kinds: type[Method]) -> dict[str, Callable[[], Method]]:
    return {kind.name: kind for kind in kinds}


METHODS: dict[str, Callable[[], Method]] = {
    **_named(Grpo, ClipHigher),
    **{name: only_loss(name) for name in ("clip-cov", "kl-cov", "cispo", "gspo", "gmpo", "sapo", "dppo")},
    **_named(Dapo, PassAtK, MaxAtK, MaxRl, VerifiedReplay, DrGrpo, RsGrpo, Qae, Pkpo, FGrpo, DifficultyWeight),
    **_named(WReinforce, Psr, Nsr, Unlikeliness, Ucpo, Darling, EvolRl, DraGrpo, RepExp, EntropyBonus),
    "entropy-advantage": only_loss("entropy-advantage"),
    **_named(Siren),
    "high-entropy": only_loss("high-entropy"),
    **_named(DiverTd, DiverEd, DiverMix, DiverAnnealed, DiverActions, Gigpo),
    **CONTRIB,
}
DEFAULT = "diver-mix"

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
    of_loss = tables.pop("loss", {})
    if not isinstance(of_loss, Mapping):
        raise DiverError(f"method.loss: is a table; its name is method.loss.name = {of_loss!r:.60}")
    loss = _loss(default, dict(of_loss))
    method = dataclasses.replace(default, loss=loss)
    if tables or name not in METHODS:  # our own defaults need no check, which would import pydantic
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


def _find(name: str, known: Mapping[str, Callable[[], T]], base: type[T], where: str) -> Callable[[], T]:
    if not isinstance(name, str):
        raise DiverError(f"{where}: must be a name, not {name!r:.60}")
    if ":" not in name:
        choose(name, known, where)
        return known[name]
    cls = import_object(name, where)
    if not (isinstance(cls, type) and issubclass(cls, base) and "__pydantic_config__" in vars(cls)):
        raise DiverError(f"{where}: {name!r} is not a subclass of {base.__name__} decorated with @settings")
    return cls

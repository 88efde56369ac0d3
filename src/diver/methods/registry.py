"""Methods by name, and a method from its name and settings.

`method.name = "package.module:Class"` is a method of one's own, a subclass of `Method`; `method.loss.name` likewise.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from diver.diversity import resolve
from diver.losses import LOSSES, PolicyLoss
from diver.methods.base import Method
from diver.methods.cde import Cde
from diver.methods.dapo import Dapo
from diver.methods.darling import Darling
from diver.methods.difficulty_weight import DifficultyWeight
from diver.methods.diver import DiverAnnealed, DiverEd, DiverMix, DiverTd
from diver.methods.dr_grpo import DrGrpo
from diver.methods.dra_grpo import DraGrpo
from diver.methods.ds_grpo import DsGrpo
from diver.methods.evol_rl import EvolRl
from diver.methods.f_grpo import FGrpo
from diver.methods.grpo import (
    Cispo,
    ClipCov,
    ClipHigher,
    EntropyAdvantage,
    EntropyBonus,
    Grpo,
    Gspo,
    HighEntropy,
    KlCov,
)
from diver.methods.max_rl import MaxRl
from diver.methods.outcome_based import OutcomeBatch, OutcomeUcbCon, OutcomeUcbMean
from diver.methods.pass_at_k import PassAtK
from diver.methods.pkpo import Pkpo
from diver.methods.rep_exp import RepExp
from diver.methods.rs_grpo import RsGrpo
from diver.methods.siren import Siren
from diver.methods.ucpo import Ucpo
from diver.methods.unlikeliness import Unlikeliness
from diver.methods.w_reinforce import Nsr, Psr, WReinforce
from diver.methods.xrpo import Xrpo
from diver.settings import choose, import_object, merge, read
from diver.types import DiverError

METHODS: dict[str, type[Method]] = {
    "grpo": Grpo,
    "clip-higher": ClipHigher,
    "clip-cov": ClipCov,
    "kl-cov": KlCov,
    "cispo": Cispo,
    "gspo": Gspo,
    "dapo": Dapo,
    "pass-at-k": PassAtK,
    "max-rl": MaxRl,
    "dr-grpo": DrGrpo,
    "rs-grpo": RsGrpo,
    "pkpo": Pkpo,
    "f-grpo": FGrpo,
    "difficulty-weight": DifficultyWeight,
    "w-reinforce": WReinforce,
    "psr": Psr,
    "nsr": Nsr,
    "unlikeliness": Unlikeliness,
    "ucpo": Ucpo,
    "xrpo": Xrpo,
    "ds-grpo": DsGrpo,
    "cde": Cde,
    "darling": Darling,
    "outcome-batch": OutcomeBatch,
    "outcome-ucb-con": OutcomeUcbCon,
    "outcome-ucb-mean": OutcomeUcbMean,
    "evol-rl": EvolRl,
    "dra-grpo": DraGrpo,
    "rep-exp": RepExp,
    "entropy-bonus": EntropyBonus,
    "entropy-advantage": EntropyAdvantage,
    "siren": Siren,
    "high-entropy": HighEntropy,
    "diver-td": DiverTd,
    "diver-ed": DiverEd,
    "diver-mix": DiverMix,
    "diver-annealed": DiverAnnealed,
}
DEFAULT = "diver-mix"

T = TypeVar("T")


def method_named(name: str = DEFAULT, **tables: Any) -> Method:
    """The method of that name, with nested tables over its settings: `method_named("diver-td", shaping={"coef": 0.5})`.

    With `frame="common"` the defaults are those of the comparison. Tables are merged key by key, `diversity_rewards`
    too: a metric leaves DIVER-MIX by weight 0. DiverError with the
    dotted key and that method's choices for an unknown name or key, a wrong type or a value out of range.
    """
    default = _find(name, METHODS, Method, "method.name")()
    if tables.get("frame") == "common":
        default = default.in_common_frame()
    of_loss = tables.pop("loss", {})
    if not isinstance(of_loss, Mapping):
        raise DiverError(f"method.loss: is a table; its name is method.loss.name = {of_loss!r:.60}")
    loss = _loss(default, dict(of_loss))
    table = merge({k: v for k, v in dataclasses.asdict(default).items() if k != "loss"}, {**tables, "name": name})
    method = dataclasses.replace(read(type(default), table, "method"), loss=loss)
    if method.threshold <= 0:
        raise DiverError(f"method.threshold: must be above 0, the outcome of a wrong response, not {method.threshold}")
    for metric in method.extra_metrics:
        resolve(metric, method.diversity)
    if method.outcomes_only and method.overlong:
        raise DiverError(f"method.overlong: {name} has advantages of outcomes alone, so a penalty has no effect")
    return method


def _loss(method: Method, table: dict[str, Any]) -> PolicyLoss:
    base = method.loss
    if (name := table.pop("name", base.name)) != base.name:
        base = _find(name, LOSSES, PolicyLoss, "method.loss.name")()
        base = base.in_common_frame() if method.frame == "common" else base
    return read(type(base), merge(dataclasses.asdict(base), {**table, "name": name}), "method.loss")


def _find(name: str, known: Mapping[str, type[T]], base: type[T], where: str) -> type[T]:
    if not isinstance(name, str):
        raise DiverError(f"{where}: must be a name, not {name!r:.60}")
    if ":" not in name:
        choose(name, known, where)
        return known[name]
    cls = import_object(name, where)
    if not (isinstance(cls, type) and issubclass(cls, base) and "__pydantic_config__" in vars(cls)):
        raise DiverError(f"{where}: {name!r} is not a subclass of {base.__name__} decorated with @settings")
    return cls

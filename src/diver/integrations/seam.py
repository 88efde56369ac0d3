"""The extension point of another trainer for advantages, and which methods it supports."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, get_args

import numpy as np

from diver.core.types import DiverError
from diver.losses import CispoLoss, ClipLoss, GspoLoss, PolicyLoss, SapoLoss
from diver.losses.base import Aggregation
from diver.methods import NEEDS, Method, check_needs, method_named


@dataclass(frozen=True)
class Seam:
    """What an engine provides to a method, and how it processes the advantage."""

    engine: str
    carries: tuple[str, ...] = ("responses",)
    """The entries of `diver.methods.NEEDS` that the engine provides."""
    subtracts_mean: bool = False
    """Whether it subtracts the mean of a group, which changes advantages that do not sum to 0."""
    per_token: bool = False
    """Whether it takes one advantage for each token."""
    drops: bool = False
    """Whether it trains on a part of the sampled rollouts, and samples further groups."""
    losses: tuple[type[PolicyLoss], ...] = (ClipLoss, GspoLoss)
    """The losses that it has; `PolicyLoss` stands for all. TRL and ms-swift select tokens of high entropy in each
    micro-batch, which is another loss."""
    aggregations: tuple[str, ...] = get_args(Aggregation)
    """How it can take the mean of a loss."""
    aggregations_of: Mapping[type[PolicyLoss], tuple[str, ...]] = field(default_factory=dict)
    """The aggregations of losses that have fewer."""
    terms: tuple[str, ...] = ("kl_coef", "entropy_coef")
    """Which of "kl_coef" and "entropy_coef" can be added to the loss."""
    knows_limit: bool = True
    """Whether it says what the length limit is."""

    def usable(self, method: str | Method) -> Method:
        """The method, if this engine supports it; else a DiverError with every reason."""
        method = method_named(method) if isinstance(method, str) else method
        check_needs(method, self.engine, self.carries)
        if reasons := [*self.unsupported(method)]:
            raise DiverError(*reasons)
        return method

    def unsupported(self, method: Method) -> Iterator[str]:
        """Why this engine does not support the method, a sentence for each reason."""
        name, engine, loss = f"method {method.name!r}", self.engine, method.loss
        if self.subtracts_mean and not method.zero_mean:
            yield f"{name}: its advantages do not sum to 0 in a group, and {engine} subtracts their mean"
        if method.per_token and not self.per_token:
            yield f"{name} has an advantage for each token, and {engine} takes one for a response"
        if method.selection.drops and not self.drops:
            yield f"{name}: a selection drops rollouts, and {engine} trains on every one"
        if method.overlong and not method.overlong.max_tokens and not self.knows_limit:
            yield f"method.overlong.max_tokens: {engine} does not say what the length limit is; give it here"
        if type(loss) not in self.losses and PolicyLoss not in self.losses:
            advice = "train this method with another engine"
            yield f"method.loss.name = {loss.name!r}: the {engine} adapter does not support this loss; {advice}"
        allowed = self.aggregations_of.get(type(loss), self.aggregations)
        if loss.aggregation not in allowed:
            only = f"{engine} has {', '.join(allowed)} for the loss {loss.name!r}"
            yield f"method.loss.aggregation = {loss.aggregation!r}: {only}"
        for term in ("kl_coef", "entropy_coef"):
            if (coef := getattr(loss, term)) and term not in self.terms:
                yield f"method.loss.{term} = {coef}: {engine}'s loss has no such term; set it to 0"

    def check_settings(self, method: Method, wanted: Mapping[str, Any], config: Any) -> None:
        """Raises DiverError with every setting of the engine that is not the one in `wanted`, by its dotted key in
        `config`."""
        real = {name: attrgetter(name)(config) for name in wanted}
        wrong = [f"{name}={value!r} (it is {real[name]!r})" for name, value in wanted.items() if real[name] != value]
        if wrong:
            raise DiverError(f"{self.engine} is not configured for method {method.name!r}: set {', '.join(wrong)}")


SEAMS = {
    seam.engine: seam
    for seam in (
        Seam(
            "TRL",
            carries=("responses", "tokens", "decode", "grades", "keys", "turns"),
            subtracts_mean=True,
            losses=(ClipLoss, GspoLoss, CispoLoss, SapoLoss),
            aggregations_of={CispoLoss: ("token-mean",), SapoLoss: ("sequence-mean",)},
        ),
        Seam("DiverTrainer", carries=NEEDS, per_token=True, drops=True, losses=(PolicyLoss,)),
        Seam(
            "ms-swift",
            carries=("responses", "grades", "keys"),
            subtracts_mean=True,
            aggregations=("token-mean", "sequence-mean"),
            terms=("kl_coef",),
        ),
        Seam(
            "slime",
            carries=("responses", "tokens", "logprobs"),
            aggregations=("token-mean", "sequence-mean"),
        ),
        Seam(
            "SkyRL",
            carries=("responses", "tokens", "logprobs", "decode"),
            per_token=True,
            aggregations=("token-mean", "sequence-mean"),
            knows_limit=False,
        ),
        Seam(
            "tinker-cookbook",
            carries=("responses", "tokens", "logprobs", "decode"),
            subtracts_mean=True,
            losses=(ClipLoss,),
            terms=(),
            knows_limit=False,
        ),
    )
}
"""What each adapter provides. Only DiverTrainer provides a `state`, which it saves with TRL's checkpoint."""


def written_by_policy(loss_mask: Sequence[float] | None, length: int) -> np.ndarray:
    """Which tokens of a response the policy wrote, bool [T]; the others are answers of tools.

    A mask without any token leaves the response out of the loss, perhaps for another reason. Then all tokens count as
    the policy's.
    """
    mask = np.ones(length, dtype=bool) if loss_mask is None else np.asarray(loss_mask, dtype=bool)
    return mask if mask.any() else ~mask


def decoder(tokenizer: Any) -> Callable[[Sequence[int]], str]:
    """A function that turns tokens into the text of a response, without an end token."""
    return lambda tokens: tokenizer.decode(tokens, skip_special_tokens=True)

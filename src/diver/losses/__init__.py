"""Policy losses by name. Your own loss is named `package.module:Class`."""

from diver.losses.base import PolicyLoss
from diver.losses.cispo import CispoLoss
from diver.losses.clip import ClipLoss
from diver.losses.covariance import ClipCovLoss, KlCovLoss
from diver.losses.dppo import DppoLoss
from diver.losses.entropy_advantage import EntropyAdvantageLoss
from diver.losses.gmpo import GmpoLoss
from diver.losses.gspo import GspoLoss
from diver.losses.high_entropy import HighEntropyLoss
from diver.losses.sapo import SapoLoss
from diver.losses.siren import SirenLoss

LOSSES: dict[str, type[PolicyLoss]] = {
    "clip": ClipLoss,
    "high-entropy": HighEntropyLoss,
    "clip-cov": ClipCovLoss,
    "kl-cov": KlCovLoss,
    "cispo": CispoLoss,
    "gspo": GspoLoss,
    "gmpo": GmpoLoss,
    "sapo": SapoLoss,
    "dppo": DppoLoss,
    "entropy-advantage": EntropyAdvantageLoss,
    "siren": SirenLoss,
}

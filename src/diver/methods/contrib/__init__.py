"""Methods with a constant for which no source could be read. The docstring of each says which, and what stands in its
place."""

from diver.methods.base import Method
from diver.methods.contrib.cde import Cde
from diver.methods.contrib.ds_grpo import DsGrpo
from diver.methods.contrib.outcome_based import OutcomeBatch, OutcomeUcbCon, OutcomeUcbMean
from diver.methods.contrib.poly_epo import PolyEpo
from diver.methods.contrib.uniqueness_aware import UniquenessAware
from diver.methods.contrib.xrpo import Xrpo

CONTRIB: dict[str, type[Method]] = {
    kind.name: kind
    for kind in (Xrpo, DsGrpo, Cde, PolyEpo, UniquenessAware, OutcomeBatch, OutcomeUcbCon, OutcomeUcbMean)
}

"""DAPO (arXiv 2503.14476): clip-higher with dynamic sampling and the soft overlong punishment."""

from diver.core.settings import settings
from diver.methods.base import Overlong, Selection
from diver.methods.grpo import ClipHigher


@settings
class Dapo(ClipHigher):
    """A length penalty; mixed groups only.

    Groups all correct or all wrong are left out before the update, and other problems are sampled in their place.
    Departures: the source raises an error after 10 batches without enough groups, and here the step trains on those
    found. Its rewards are 1 and -1 and its penalty up to 1; ours are half of that, with the same advantage.
    """

    name: str = "dapo"
    selection: Selection = Selection(filter_groups=True)
    overlong: Overlong = Overlong(buffer=0.2)

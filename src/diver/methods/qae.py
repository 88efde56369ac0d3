"""QAE (arXiv 2509.22611): the baseline of a group is a quantile of its rewards, not their mean."""

from typing import Annotated

import numpy as np

from diver.core.settings import Bound, settings
from diver.core.types import Group
from diver.methods.base import Context
from diver.methods.grpo import ClipHigher


@settings
class Qae(ClipHigher):
    """A quantile in place of the mean.

    Only successes teach where a group is mostly wrong, and only failures where it is mostly correct.

    A_i = (r_i - the quantile of r) / std over the group. With outcomes of 0 and 1 the quantile is 0 if at most a
    fraction 1 - quantile is correct, so that wrong responses have no advantage, and else 1. As in the authors' code it
    is linear between two responses, so one number of correct responses may have a quantile between 0 and 1. Departures:
    the authors' runs are DAPO's, with dynamic sampling and the overlong penalty (`method.selection.filter_groups`,
    `method.overlong.buffer`), and divide by the standard deviation of the sample.
    """

    name: str = "qae"
    quantile: Annotated[float, Bound("above 0 and below 1", lambda x: 0 < x < 1)] = 0.4
    """K, which quantile is the baseline. The lower, the more groups in which wrong responses are penalised."""

    zero_mean = False

    def advantages(self, group: Group, context: Context) -> np.ndarray:
        a = super().advantages(group, context)
        return a - np.quantile(a, self.quantile)  # (r - mean) / std preserves the quantile's rank

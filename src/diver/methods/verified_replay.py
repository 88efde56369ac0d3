"""clip-higher with replay of verified solutions."""

from diver.core.settings import settings
from diver.methods.grpo import ClipHigher
from diver.methods.replay import Replay


@settings
class VerifiedReplay(ClipHigher):
    """Trains on earlier solutions too.

    Each update also trains on one earlier correct response per solution. It is clip-higher with `replay.alpha` 0.1,
    after Re:Dr (remax-rl 0.1.1); max-rl with replay is Re:Max. See `diver.methods.replay` for the objective and its
    departures.
    """

    name: str = "verified-replay"
    replay: Replay = Replay(alpha=0.1)

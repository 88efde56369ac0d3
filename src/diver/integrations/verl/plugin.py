"""The entry point: registers with verl what this plugin adds. verl imports it at `import verl`, in every process.

verl logs an entry point that fails at DEBUG only, and continues. So a failure is logged here, and a stand-in for the
trainer is registered: a run that uses the trainer ends with the reason instead of an unknown name.
"""

import contextlib
import logging
from typing import Any, NoReturn

from diver.core.types import DiverError
from diver.integrations.verl.config import NAME
from diver.integrations.versions import VERSIONS

logger = logging.getLogger(__name__)


def register() -> None:
    """Registers the plugin. Raises DiverError for a version of verl that it does not support."""
    import verl

    allowed = VERSIONS["allowed"]["verl"]
    if f"=={verl.__version__}" != allowed:
        works = f"this diver-rl works with verl {allowed.removeprefix('==')}"
        raise DiverError(f"verl {verl.__version__}: {works}; pip install verl{allowed}")
    from diver.integrations.verl import reward, trainer  # noqa: F401


def refuse(reason: Exception) -> None:
    """Replace the trainer by one that only reports why the plugin is not loaded."""
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    def refusal(**_: Any) -> NoReturn:
        raise DiverError(f"the plugin of diver-rl could not be loaded into verl: {reason}") from reason

    TRAINER_REGISTRY[NAME] = refusal


try:
    register()
except Exception as error:
    logger.error("the plugin of diver-rl could not be loaded into verl: %s: %s", type(error).__name__, error)
    with contextlib.suppress(Exception):  # a verl without this trainer cannot register its mode
        refuse(error)
    raise

"""Checks that every node has loaded the plugin, since verl does not report an entry point that fails."""

from importlib.metadata import version
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from diver.core.types import DiverError
from diver.integrations.verl.config import NAME

SECONDS = 300.0  # a first import of verl from a cold network disk can take minutes


def report() -> dict[str, str]:
    """The state of this process: versions, and what the plugin has registered with verl."""
    import verl
    from verl.experimental.reward_loop.reward_manager.registry import REWARD_MANAGER
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    names = {"trainer": TRAINER_REGISTRY, "reward": REWARD_MANAGER, "estimators": ADV_ESTIMATOR_REGISTRY}
    registered = {what: ", ".join(sorted(n for n in table if n.startswith(NAME))) for what, table in names.items()}
    return {"diver-rl": version("diver-rl"), "verl": verl.__version__, **registered}


def check() -> None:
    """Raises DiverError unless a new process on every node of the cluster has the same state as this one."""
    mine = report()
    alive = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
    answers = {}
    for node in alive:
        strategy = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        task = ray.remote(report).options(num_cpus=0, scheduling_strategy=strategy)
        answers[node["NodeManagerAddress"]] = task.remote()
    for node, answer in answers.items():
        try:
            theirs: Any = ray.get(answer, timeout=SECONDS)
        except Exception as error:  # any error is reported as the cause
            theirs = (str(error).strip() or repr(error)).splitlines()[-1]
        if theirs != mine:
            raise DiverError(
                f"node {node}: the plugin of diver-rl is not loaded there as it is here. There: {theirs}. Here: "
                f"{mine}. Install version {mine['diver-rl']} of DIVER and verl=={mine['verl']} on every node, and "
                "leave VERL_USE_EXTERNAL_PLUGINS unset"
            )

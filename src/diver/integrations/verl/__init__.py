"""DIVER in verl (Ray, FSDP, vLLM; more than one device), as a plugin of the stock release.

verl loads `diver.integrations.verl.plugin` by itself in every process of a cluster, through its entry-point group
`verl.plugins`, wherever `diver-rl` is installed. These options of verl switch it on:

    trainer.v1.trainer_mode=diver             whole groups are shaped between sampling and the advantage
    algorithm.adv_estimator=diver             the advantages of the method
    reward.reward_manager.name=diver          our grades are verl's reward
    +algorithm.diver=diver-mix                the method: see `config.py` for more than a name

`diver verl RECIPE` writes them for a recipe. Importing this package does not import verl.
"""

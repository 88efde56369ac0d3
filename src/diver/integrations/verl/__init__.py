"""DIVER in verl (Ray, FSDP, vLLM; more than one device), as a plugin of the stock release: docs/verl.md has its
options.

verl loads `plugin.py` by itself in every process of a cluster, through its entry-point group `verl.plugins`.
"""

"""The built-in trainer: one process, a CPU or one GPU. Read `trainer.py` first, then `update.py`."""

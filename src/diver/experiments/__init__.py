"""The paper's tables and figures by name, at laptop scale and at the paper's.

catalogue.py   what each experiment varies, measures and claims: declarative
store.py       what a run comes to: one small JSON file a run, found again by its recipe
work.py        one run: train, then sample from its checkpoints
sweep.py       many runs side by side, killed and gone on with
reading.py     from the files of many runs to numbers with paired intervals
tables.py      numbers as Markdown; pictures.py: as curves
reproduce.py   the verb
"""

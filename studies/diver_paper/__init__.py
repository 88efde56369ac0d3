"""The paper's tables and figures by name, at laptop scale and at the paper's.

catalogue.py   what each experiment varies and measures: declarative; claims.py: what the paper says of it
store.py       what a run comes to: one small JSON file a run, found again by its recipe
work.py        one run: train, then sample from its checkpoints
sweep.py       many runs side by side, killed and gone on with
reading.py     from the files of many runs to numbers with paired intervals
kept.py        the responses that a record keeps, by metrics that need a model
tables.py      numbers as Markdown; pictures.py: as curves; special.py: pages of another kind
reproduce.py   the verb
"""

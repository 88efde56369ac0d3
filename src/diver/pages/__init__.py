"""The pages: one HTML file each, which opens without a server and sends no request to another machine.

Four nouns:

- A *page* is written by `page.py` alone, which escapes all that models and data sets wrote.
- A *run record* has the content of a run folder: its metrics, evaluations and rollouts.
- A *source* is a path of anyone's rollouts that is read within a budget.
- A *panel* is the plot of one metric, with a line for each run.

Three entry points:

- `run_page.write_report(folder)`: the page of one run.
- `browse.run(Browse(...))`: the page of runs or of rollouts, as `diver browse`.
- `measured.write_measured(...)`: the page of `diver measure`.
"""

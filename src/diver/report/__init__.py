"""The page of a run, or of several: see `write`."""

from diver.report.sections import headline
from diver.report.summary import summary_table
from diver.report.write import write_browser, write_report

__all__ = ["headline", "summary_table", "write_browser", "write_report"]

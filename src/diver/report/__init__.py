"""The page of a run, or of several: see `write`."""

from diver.report.write import headline, summary_table, write_browser, write_report

__all__ = ["headline", "summary_table", "write_browser", "write_report"]

"""Tables, pages and figures for people. `write_report` writes the report on a run."""

from beliefrag.report.run_report import cost_lines, mean_notes, report_page, report_tables, results_table, write_report
from beliefrag.report.table import Column, Page, Table, format_cell, format_number

__all__ = [
    "Column",
    "Page",
    "Table",
    "cost_lines",
    "format_cell",
    "format_number",
    "mean_notes",
    "report_page",
    "report_tables",
    "results_table",
    "write_report",
]

"""Tables and figures for people: terminal, Markdown, HTML, LaTeX, CSV, PNG and PDF.

`Table` and `Page` are the one way to write tables and pages; `figure` is the one way to draw and save pictures.
`write_report` writes the report on a run.
"""

from beliefrag.report.page import BulletList, CodeBlock, Heading, Page, PageLink, Paragraph, Picture
from beliefrag.report.run_report import cost_lines, mean_notes, report_page, report_tables, results_table, write_report
from beliefrag.report.table import Column, Table, format_cell, format_number

__all__ = [
    "BulletList",
    "CodeBlock",
    "Column",
    "Heading",
    "Page",
    "PageLink",
    "Paragraph",
    "Picture",
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

"""What labeling a source gives, to be looked at: in a terminal, and as a page."""

from laplacianshot.reports.labeling.page import label_page, write_label_report

__all__ = ["label_page", "write_label_report"]

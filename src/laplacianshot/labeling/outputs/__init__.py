"""What a result is written to: a table of rows, and pictures in class folders."""

from laplacianshot.labeling.outputs.rows import write_rows, write_suggestions
from laplacianshot.labeling.outputs.sorting import LOG_NAME, SortResult, sort_pictures, undo_sorting

__all__ = ["LOG_NAME", "SortResult", "sort_pictures", "undo_sorting", "write_rows", "write_suggestions"]

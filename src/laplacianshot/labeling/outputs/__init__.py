"""What is made of a result: rows, tasks of Label Studio, pictures in class folders."""

from laplacianshot.labeling.label_studio import export_label_studio, how_to_import, interface_of
from laplacianshot.labeling.outputs.apply import LOG_NAME, Applied, apply_labels, finish, undo, unfinished
from laplacianshot.labeling.outputs.rows import write_rows

__all__ = [
    "LOG_NAME",
    "Applied",
    "apply_labels",
    "export_label_studio",
    "finish",
    "how_to_import",
    "interface_of",
    "undo",
    "unfinished",
    "write_rows",
]

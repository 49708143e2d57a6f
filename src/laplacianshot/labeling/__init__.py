"""The practitioner's job: a source and a few labels in, every label out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laplacianshot.runtime.extras import lazy_names

if TYPE_CHECKING:
    from laplacianshot.labeling.arrays import label
    from laplacianshot.labeling.errors import LabelingError
    from laplacianshot.labeling.model import LabelModel
    from laplacianshot.labeling.result import LabelResult
    from laplacianshot.labeling.run import label_source

__all__ = ["LabelModel", "LabelResult", "LabelingError", "label", "label_source"]

_HOMES = {
    "LabelModel": "laplacianshot.labeling.model",
    "LabelResult": "laplacianshot.labeling.result",
    "LabelingError": "laplacianshot.labeling.errors",
    "label": "laplacianshot.labeling.arrays",
    "label_source": "laplacianshot.labeling.run",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

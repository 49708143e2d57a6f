"""What can be labeled: pictures in folders, texts in tables, vectors in arrays."""

from laplacianshot.labeling.sources.base import Source
from laplacianshot.labeling.sources.opening import open_source
from laplacianshot.labeling.sources.pictures import PictureSource
from laplacianshot.labeling.sources.tables import TextSource
from laplacianshot.labeling.sources.vectors import VectorSource

__all__ = ["PictureSource", "Source", "TextSource", "VectorSource", "open_source"]

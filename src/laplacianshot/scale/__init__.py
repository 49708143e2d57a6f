"""Large sets: approximate neighbour graphs with measured recall, and solving within a memory budget."""

from laplacianshot.scale.cells import CellIndex
from laplacianshot.scale.fit import fit_large, scaled_affinity
from laplacianshot.scale.neighbors import GraphReport, scaled_neighbors
from laplacianshot.scale.rows import Rows

__all__ = ["CellIndex", "GraphReport", "Rows", "fit_large", "scaled_affinity", "scaled_neighbors"]

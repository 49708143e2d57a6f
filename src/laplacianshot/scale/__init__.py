"""Large sets: approximate neighbour graphs with measured recall, and solving within a memory budget."""

from laplacianshot.scale.neighbors import GraphReport, scaled_neighbors
from laplacianshot.scale.rows import Rows

__all__ = ["GraphReport", "Rows", "scaled_neighbors"]

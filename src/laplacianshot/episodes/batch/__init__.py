"""Many tasks at once: inner products of their rows, and the recipes on batches of them."""

from laplacianshot.episodes.batch.grams import GramSource, Placement
from laplacianshot.episodes.batch.recipes import BatchedRecipe, BatchSolution

__all__ = ["BatchSolution", "BatchedRecipe", "GramSource", "Placement"]

"""Pictures as tensors: views for training and evaluation, and batches of them."""

from laplacianshot.runtime.extras import require

# Before the modules that need them, so that a missing one is named with its extra.
require("torch", "train")
require("PIL.Image", "train")

from laplacianshot.embedding.pictures.views import Batch, EvalView, TrainView, View, batches  # noqa: E402

__all__ = ["Batch", "EvalView", "TrainView", "View", "batches"]

"""The layouts in which picture sets are published, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from laplacianshot.datasets._listing import Listing
from laplacianshot.datasets.layouts import bundles, csv_splits, cub, folders, inat


class Layout(NamedTuple):
    """How to find the pictures of a data set, and what a user must know to provide them."""

    find: Callable[[Path], Listing]
    description: str


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "folder": Layout(folders.find, folders.DESCRIPTION),
        "csv-splits": Layout(csv_splits.find, csv_splits.DESCRIPTION),
        "mini": Layout(csv_splits.find_mini, csv_splits.MINI),
        "tiered": Layout(csv_splits.find_tiered, csv_splits.TIERED),
        "cub": Layout(cub.find, cub.DESCRIPTION),
        "inat": Layout(inat.find, inat.DESCRIPTION),
        "cub84": Layout(bundles.finder("cub84.npz", bundles.CUB84), bundles.CUB84),
        "omniglot28": Layout(bundles.finder("omniglot28.npz", bundles.OMNIGLOT28), bundles.OMNIGLOT28),
        "cifarfs": Layout(bundles.finder("cifarfs_images.npz", bundles.CIFARFS), bundles.CIFARFS),
    }
)

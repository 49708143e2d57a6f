"""The same job on a cluster: who encodes and who fits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.sources import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laplacianshot.embedding.encoding import Encoded

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class OnRay:
    """Where the work is done.

    Attributes
    ----------
    folder : str
        Path or URL that every node can write to.
    address : str, optional
    shards : int, optional
    """

    folder: str
    address: str | None = None
    shards: int | None = None

    @classmethod
    def of(cls, engine: str, address: str | None, folder: str | None, shards: int | None) -> OnRay | None:
        """None for the engine of one machine; LabelingError for what does not go together."""
        if engine not in ENGINES:
            raise LabelingError(f"engine is {engine!r}; choose one of {', '.join(ENGINES)}.")
        if engine == "local":
            for name, value in (("address", address), ("run_folder", folder), ("shards", shards)):
                if value is not None:
                    raise LabelingError(f"{name} belongs to engine 'ray' (--engine ray); leave it out.")
            return None
        if folder is None and address is not None:
            raise LabelingError(
                "engine 'ray' with an address needs run_folder (--run-folder): a path or URL that every node can write "
                "to."
            )
        if folder is None:
            from laplacianshot.runtime.user_cache import user_cache

            folder = str(user_cache()[0] / "ray")
        return cls(folder, address, shards)

    def encode(self, source: Source, encoder: str | None, progress: Callable[[int, int], object] | None) -> Encoded:
        """Vectors of pictures or texts."""
        from laplacianshot.ray.extraction import ray_encode

        assert source.kind != "vectors"
        with one_line():
            return ray_encode(
                source,
                encoder,
                source.kind,
                folder=self.folder,
                address=self.address,
                shards=self.shards,
                progress=progress,
            )

    def engine(self, source: Source) -> Any:
        """What fits in place of the estimator."""
        from laplacianshot.ray import RayEngine

        files = [str(source.path)] if source.kind == "vectors" and source.path.suffix.lower() == ".npy" else None
        return RayEngine(self.folder, self.address, self.shards, files)


@contextmanager
def one_line() -> Iterator[None]:
    """What is wrong with a cluster or with shards, as the error of this package."""
    from laplacianshot.ray import ClusterError

    try:
        yield
    except (ClusterError, ValueError) as error:
        raise LabelingError(str(error)) from error

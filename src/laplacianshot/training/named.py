"""Configs that come with the package, one for each published setting and for our own runs."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from laplacianshot.training.config import TrainConfig
from laplacianshot.training.errors import ConfigError


def config_names() -> dict[str, str]:
    """Names of the configs, each with what it is for: the comment on the first line of its file."""
    found = {}
    for file in sorted(files("laplacianshot").joinpath("configs").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            first = file.read_text(encoding="utf-8").partition("\n")[0]
            found[file.name.removesuffix(".toml")] = first.lstrip("# ")
    return found


def load_config(name: str, settings: Mapping[str, Any] | None = None) -> TrainConfig:
    """A config by its name or from a TOML file.

    Parameters
    ----------
    name : str
        One of :func:`config_names`, or a path that ends in ``.toml``.
    settings : mapping, optional
        Values that take the place of those of the file.

    Raises
    ------
    ConfigError
        There is no such config, or one of its values cannot be.
    """
    if name.endswith(".toml"):
        path = Path(name)
        try:
            config = TrainConfig.from_toml(path)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from error
    else:
        known = list(config_names())
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}; or give a .toml file."
            raise ConfigError(f"there is no config {name!r}; {hint}")
        config = TrainConfig.from_toml(Path(str(files("laplacianshot").joinpath("configs", f"{name}.toml"))))
    if not settings:
        return config
    values = config.to_mapping()
    if settings.get("network", config.network) != config.network:
        # The batch size of another network, unless one is given.
        values["batch_size"] = 0
    return TrainConfig.from_mapping({**values, **settings})

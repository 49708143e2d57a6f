"""Checkpoints: one file holds the tensors and, in its header, the state that belongs to them.

So the two can never come from different moments, whenever the process is killed. The ``.json`` file beside it repeats
the header for human readers and other programs; nothing is read back from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from laplacianshot.embedding import build_network
from laplacianshot.runtime.files import check_input, put_file
from laplacianshot.training.config import TrainConfig
from laplacianshot.training.state import ConfigError, TrainError, TrainState

if TYPE_CHECKING:
    from laplacianshot.embedding.networks.architectures import Network

_FORMAT = "laplacianshot checkpoint"
_VERSION = 1

LAST, BEST = "last.safetensors", "best.safetensors"

# What the names of tensors begin with.
MODEL, MOMENTUM, RANDOM = "model.", "momentum.", "random."


@dataclass(frozen=True)
class Checkpoint:
    """A network in training, or a trained one.

    Attributes
    ----------
    config : TrainConfig
    class_names : tuple of str
        The base classes, in the order of the logits.
    data_key : str
        Which pictures it was trained on.
    state : TrainState
    tensors : mapping of str to Tensor
        ``model.*``: weights and buffers; ``momentum.*``: of SGD, by parameter; ``random.*``: states of generators.
    """

    config: TrainConfig
    class_names: tuple[str, ...]
    data_key: str
    state: TrainState
    tensors: Mapping[str, Tensor]

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose name begins so, under the rest of their name."""
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}

    def only(self, prefix: str) -> Checkpoint:
        """The same with these tensors alone."""
        return replace(self, tensors={name: t for name, t in self.tensors.items() if name.startswith(prefix)})

    def header(self) -> dict[str, Any]:
        """Everything but the tensors."""
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "config": self.config.to_mapping(),
            "class_names": list(self.class_names),
            "data_key": self.data_key,
            "state": self.state.to_json(),
        }

    def write(self, path: Path) -> None:
        """Put the checkpoint at ``path``, whole and on the disk, or leave what was there."""
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in self.tensors.items()}
        content = save(tensors, {"laplacianshot": json.dumps(self.header())})
        put_file(path, lambda file: file.write(content))
        self.write_json(path)

    def write_json(self, path: Path) -> None:
        """Put the copy of the header beside the checkpoint at ``path``."""
        text = json.dumps(self.header(), indent=2) + "\n"
        put_file(path.with_suffix(".json"), lambda file: file.write(text.encode()))

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Read a checkpoint; nothing in it is ever executed."""
        try:
            # A message of our own for a missing file: the library's depends on its version.
            check_input(path)
            with safe_open(path, framework="pt") as file:
                text = (file.metadata() or {}).get("laplacianshot", "{}")
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except OSError as error:
            raise TrainError(f"{path}: cannot be read ({error.strerror or error}).") from error
        except SafetensorError as error:
            raise TrainError(f"{path}: is not a complete safetensors file ({error}).") from error
        header = json.loads(text)
        if header.get("format") != _FORMAT:
            raise TrainError(f"{path}: is not a checkpoint of laplacianshot train.")
        if header["version"] != _VERSION:
            raise TrainError(f"{path}: was written by another version of laplacianshot; train again.")
        try:
            config = TrainConfig.from_mapping(header["config"])
        except ConfigError as error:
            raise TrainError(f"{path}: {error}") from error
        state = TrainState.from_json(header["state"])
        return cls(config, tuple(header["class_names"]), header["data_key"], state, tensors)

    def network(self) -> Network:
        """The network with these weights, on the processor, ready for evaluation."""
        config = self.config
        network = build_network(
            config.network, len(self.class_names), in_channels=config.channels, image_size=config.image_size
        )
        network.load_state_dict(self.part(MODEL))
        return network.eval()

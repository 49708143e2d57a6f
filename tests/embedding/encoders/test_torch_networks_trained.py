"""Networks of our own training as encoders."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from laplacianshot.datasets.pictures import open_pictures
from laplacianshot.embedding import build_network
from laplacianshot.embedding.encoders import EncoderError, open_encoder
from laplacianshot.training.checkpoint import BEST, MODEL, Checkpoint
from laplacianshot.training.config import TrainConfig
from laplacianshot.training.plan import eval_view
from laplacianshot.training.state import TrainState


@pytest.mark.parametrize("channels", [3, 1])
def test_a_checkpoint_gives_the_features_of_its_validation(tmp_path, channels):
    config = TrainConfig(network="conv4", image_size=16, resize=20, channels=channels)
    torch.manual_seed(0)
    network = build_network("conv4", 2, in_channels=channels, image_size=16).eval()
    tensors = {f"{MODEL}{name}": tensor for name, tensor in network.state_dict().items()}
    Checkpoint(config, ("ant", "bee"), "", TrainState(), tensors).write(tmp_path / BEST)

    rng = np.random.default_rng(0)
    for number in range(3):
        path = tmp_path / "pictures" / "ant" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (24, 30 + number, 3), dtype=np.uint8)).save(path)
    pictures = open_pictures("folder", tmp_path / "pictures")
    with torch.inference_mode():
        wanted = network(eval_view(config)(pictures, range(3)))[0].numpy()

    for what in (tmp_path, tmp_path / BEST):
        encoder = open_encoder(f"checkpoint:{what}", "pictures", threads=1)
        found = encoder.encode([encoder.prepare(pictures.read(i)) for i in range(3)])
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
        assert encoder.dim == network.feature_dim


def test_what_is_no_checkpoint_is_refused(tmp_path):
    (tmp_path / BEST).write_bytes(b"no checkpoint")
    with pytest.raises(EncoderError, match="is not a complete safetensors file"):
        open_encoder(f"checkpoint:{tmp_path}", "pictures")
    with pytest.raises(EncoderError, match="is for pictures, and the items are texts"):
        open_encoder(f"checkpoint:{tmp_path}", "texts")

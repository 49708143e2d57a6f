"""Models of timm and transformers, from folders: tests download nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from laplacianshot.embedding.encoders import EncoderError, open_encoder, open_text_side

transformers = pytest.importorskip("transformers", reason="needs the extra hf")


def test_a_network_of_timm_sees_pictures_as_timm_shows_them(tmp_path, pictures):
    timm = pytest.importorskip("timm", reason="needs the extra timm")
    torch.manual_seed(0)
    network = timm.create_model("resnet10t", pretrained=False).eval()
    timm.models.save_for_hf(network, tmp_path)
    encoder = open_encoder(f"timm:local-dir:{tmp_path}", "pictures", threads=1)
    show = timm.data.create_transform(**timm.data.resolve_model_data_config(network), is_training=False)
    with torch.inference_mode():
        batch = torch.stack([show(picture.convert("RGB")) for picture in pictures])
        wanted = network.forward_head(network.forward_features(batch), pre_logits=True).numpy()
    found = encoder.encode([encoder.prepare(picture) for picture in pictures])
    np.testing.assert_allclose(found, wanted, atol=1e-2 * np.abs(wanted).max())


def small(kind: str, **sizes: int) -> object:
    torch.manual_seed(0)
    shared = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = getattr(transformers, f"{kind}Config")(**{**shared, **sizes})
    return getattr(transformers, f"{kind}Model")(config).eval()


def save_processor(folder, side: int = 32) -> object:
    # Pillow's way of resizing, as all our encoders have it.
    processor = transformers.ViTImageProcessor(size={"height": side, "width": side})
    processor.save_pretrained(folder)
    return processor


def test_a_model_for_pictures_gives_its_pooled_output(tmp_path, pictures):
    model = small("ViT", image_size=32, patch_size=8)
    model.save_pretrained(tmp_path)
    processor = save_processor(tmp_path)
    encoder = open_encoder(f"hf:{tmp_path}", "pictures", threads=1)
    shown = processor(images=[picture.convert("RGB") for picture in pictures], return_tensors="pt")
    with torch.inference_mode():
        wanted = torch.nn.functional.normalize(model(**shown).pooler_output).numpy()
    found = encoder.encode([encoder.prepare(picture) for picture in pictures])
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert encoder.dim == 16


def test_a_model_for_pictures_is_no_model_for_texts(tmp_path):
    small("ViT", image_size=32, patch_size=8).save_pretrained(tmp_path)
    save_processor(tmp_path)
    with pytest.raises(EncoderError, match="cannot be loaded") as refused:
        open_encoder(f"hf:{tmp_path}", "texts")
    assert "\n" not in str(refused.value)


def test_the_first_token_stands_for_the_text_where_the_model_says_so(tmp_path):
    from laplacianshot.embedding.encoders.pretrained import MINILM_WEIGHTS

    model = small("Bert", vocab_size=30522, max_position_embeddings=32)
    model.save_pretrained(tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(MINILM_WEIGHTS.file().parent)
    tokenizer.save_pretrained(tmp_path)
    texts = ["one", "two words", "one", "more words than the model has places for " * 9]
    with torch.inference_mode():
        states = [
            model(**tokenizer(text, truncation=True, max_length=32, return_tensors="pt")).last_hidden_state[0]
            for text in texts
        ]
    keys = set()
    for pooling, pooled in [("mean", [s.mean(0) for s in states]), ("cls", [s[0] for s in states])]:
        (tmp_path / "1_Pooling").mkdir(exist_ok=True)
        told = '{"pooling_mode_cls_token": %s, "pooling_mode_mean_tokens": %s}'
        truths = ("true", "false") if pooling == "cls" else ("false", "true")
        (tmp_path / "1_Pooling" / "config.json").write_text(told % truths)
        encoder = open_encoder(f"hf:{tmp_path}", "texts", threads=1)
        keys.add(encoder.key)
        found = encoder.encode([encoder.prepare(text) for text in texts])
        wanted = torch.nn.functional.normalize(torch.stack(pooled), dim=1).numpy()
        np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert len(keys) == 2


def test_the_number_of_torch_threads_is_left_alone(tmp_path, pictures):
    small("ViT", image_size=32, patch_size=8).save_pretrained(tmp_path)
    save_processor(tmp_path)
    before = torch.get_num_threads()
    encoder = open_encoder(f"hf:{tmp_path}", "pictures", threads=before + 1)
    encoder.encode([encoder.prepare(pictures[0])])
    assert torch.get_num_threads() == before


def test_clip_reads_pictures_and_names_into_one_space(tmp_path, pictures):
    from laplacianshot.embedding.encoders.pretrained import MINILM_WEIGHTS

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={**sizes, "vocab_size": 30522, "max_position_embeddings": 16, "eos_token_id": 102},
        vision_config={**sizes, "image_size": 32, "patch_size": 8},
        projection_dim=8,
    )
    transformers.CLIPModel(config).eval().save_pretrained(tmp_path)
    save_processor(tmp_path)
    transformers.AutoTokenizer.from_pretrained(MINILM_WEIGHTS.file().parent).save_pretrained(tmp_path)
    name = f"clip:{tmp_path}"
    images, words = open_encoder(name, "pictures", threads=1), open_text_side(name, "pictures", threads=1)
    assert (images.name, images.dim, words.dim, words.kind) == (name, 8, 8, "texts")
    vectors = words.encode([words.prepare(text) for text in ("a heron", "a photo of a coot. " * 9)])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, rtol=1e-5)
    assert images.encode([images.prepare(pictures[0])]).shape == (1, 8)
    assert open_text_side(f"hf:{tmp_path}", "pictures", threads=1).dim == 8


def test_a_model_of_pictures_alone_has_no_text_side(tmp_path):
    small("ViT", image_size=32, patch_size=8).save_pretrained(tmp_path)
    with pytest.raises(EncoderError, match="has no text side"):
        open_text_side(f"hf:{tmp_path}", "pictures")

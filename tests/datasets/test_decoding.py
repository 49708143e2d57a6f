from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image, ImageOps

from laplacianshot.datasets.decoding import CorruptPicture, check, decode, thumbnail
from tests.datasets.made_up import png_of_size


def encoded(picture, **options):
    buffer = io.BytesIO()
    picture.save(buffer, options.pop("format", "PNG"), **options)
    return buffer.getvalue()


def noise(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("how", ["empty", "text", "truncated", "without its end", "huge", "large"])
@pytest.mark.parametrize("ending", ["png", "jpg"])
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_quick_check_finds_what_is_empty_truncated_huge_or_no_picture(tmp_path, draw, spoil, how, ending):
    path = tmp_path / f"a.{ending}"
    draw(path, width=40, height=40)
    check(path, "a", whole=False)
    spoil(path, how)
    for look in (
        lambda: check(path, "a", whole=False),
        lambda: check(path, "a", whole=True),
        lambda: decode(path, "a"),
    ):
        with pytest.raises(CorruptPicture, match=r"picture 'a' cannot be read: \S"):
            look()


def test_damage_inside_is_found_by_decoding(tmp_path, draw, spoil):
    path = tmp_path / "a.png"
    draw(path, width=40, height=40)
    spoil(path, "damaged inside")
    check(path, "a", whole=False)
    with pytest.raises(CorruptPicture):
        check(path, "a", whole=True)
    with pytest.raises(CorruptPicture):
        decode(path, "a")


def test_bytes_after_the_end_of_a_whole_picture_do_no_harm(tmp_path, draw):
    path = tmp_path / "a.jpg"
    draw(path)
    path.write_bytes(path.read_bytes() + b"\0" * 20)
    check(path, "a", whole=False)
    assert decode(path, "a").size == (12, 10)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_huge_picture_is_refused_by_its_header_alone():
    with pytest.raises(CorruptPicture, match=r"9500 x 9500 pixels, and 89,478,485 are the most allowed"):
        check(png_of_size(9_500, 9_500), "bomb", whole=False)


def test_the_content_counts_and_not_the_ending_of_the_name(tmp_path):
    path = tmp_path / "really.jpg"
    drawn = noise((10, 12, 3))
    path.write_bytes(encoded(Image.fromarray(drawn)))
    np.testing.assert_array_equal(np.asarray(decode(path, "a")), drawn)


def test_no_format_is_opened_that_would_run_a_program():
    postscript = encoded(Image.fromarray(noise((10, 12, 3))), format="EPS")
    with pytest.raises(CorruptPicture, match="none of JPEG, PNG"):
        decode(postscript, "a")


def test_the_name_in_an_error_stays_on_one_line():
    with pytest.raises(CorruptPicture) as caught:
        decode(b"no picture", "two\nlines.jpg")
    assert "\n" not in str(caught.value)
    assert caught.value.name == "two\nlines.jpg"
    assert caught.value.reason


def test_gray_stays_gray():
    drawn = noise((5, 4))
    picture = decode(encoded(Image.fromarray(drawn)), "a")
    assert picture.mode == "L"
    np.testing.assert_array_equal(np.asarray(picture), drawn)


def test_sixteen_bits_are_scaled_to_eight():
    deep = (noise((5, 4)).astype(np.uint16) << 8) + 37
    picture = decode(encoded(Image.fromarray(deep)), "a")
    np.testing.assert_array_equal(np.asarray(picture), deep >> 8)


@pytest.mark.parametrize(("mode", "plain"), [("1", "L"), ("LA", "L"), ("P", "RGB"), ("RGBA", "RGB"), ("CMYK", "RGB")])
def test_other_modes_become_color_or_gray(mode, plain):
    picture = Image.fromarray(noise((5, 4, 3))).convert(mode)
    read = decode(encoded(picture, format="TIFF"), "a")
    assert (read.mode, read.size) == (plain, (4, 5))
    np.testing.assert_array_equal(np.asarray(read), np.asarray(picture.convert(plain)))


def test_transparency_is_dropped_without_a_warning(recwarn):
    picture = Image.fromarray(noise((5, 4, 3))).convert("P")
    read = decode(encoded(picture, transparency=bytes([0, 128, 255])), "a")
    np.testing.assert_array_equal(np.asarray(read), np.asarray(picture.convert("RGB")))
    assert not recwarn.list


def test_what_is_not_pixels_is_not_kept():
    data = encoded(Image.fromarray(noise((5, 4, 3))), format="JPEG", comment=b"x" * 5000, icc_profile=b"y" * 5000)
    assert decode(data, "a").info == {}


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_photographs_are_halved_until_the_shorter_side_is_below_2048(kind):
    # Constant blocks of 64 pixels survive halving exactly, but for JPEG's rounding.
    blocks = np.random.default_rng(0).integers(0, 256, (64, 70), dtype=np.uint8)
    large = Image.fromarray(np.kron(blocks, np.ones((64, 64), dtype=np.uint8)))
    picture = decode(encoded(large, format=kind, **({"quality": 95} if kind == "JPEG" else {})), "a")
    assert picture.size == (70 * 16, 64 * 16)
    centers = np.asarray(picture)[8::16, 8::16].astype(int)
    assert np.abs(centers - blocks).max() <= 4
    small = Image.fromarray(np.zeros((2047, 2100), dtype=np.uint8))
    assert decode(encoded(small, format=kind), "a").size == (2100, 2047)


@pytest.mark.parametrize(("size", "shown"), [((400, 100), (96, 24)), ((50, 30), (50, 30)), ((3000, 2000), (96, 64))])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_thumbnail_fits_its_side_and_is_never_enlarged(size, shown, kind):
    # Wide waves: what they look like does not depend on how they are made smaller.
    ramp = np.sin(np.linspace(0, 6, size[0]))[None] + np.cos(np.linspace(0, 6, size[1]))[:, None]
    picture = Image.fromarray((60 * ramp + 128).astype(np.uint8))
    found = thumbnail(encoded(picture, format=kind), "a", 96)
    assert found.size == shown
    expected = picture.resize(shown, Image.Resampling.LANCZOS)
    assert np.abs(np.asarray(found, dtype=float) - np.asarray(expected, dtype=float)).max() < 12


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_thumbnail_is_upright(orientation):
    picture = Image.fromarray(noise((30, 40, 3)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    tagged = encoded(picture, exif=exif)
    found = thumbnail(tagged, "a", 64)
    with Image.open(io.BytesIO(tagged)) as opened:
        np.testing.assert_array_equal(np.asarray(found), np.asarray(ImageOps.exif_transpose(opened)))
    assert not found.info


@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_picture_is_decoded_upright_where_this_is_asked_for(orientation):
    picture = Image.fromarray(noise((30, 40, 3)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    tagged = encoded(picture, exif=exif)
    with Image.open(io.BytesIO(tagged)) as opened:
        wanted = np.asarray(ImageOps.exif_transpose(opened))
        as_stored = np.asarray(opened)
    np.testing.assert_array_equal(np.asarray(decode(tagged, "a", upright=True)), wanted)
    np.testing.assert_array_equal(np.asarray(decode(tagged, "a")), as_stored)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_a_damaged_tag_is_no_damaged_picture():
    tagged = encoded(Image.fromarray(noise((30, 40, 3))), exif=b"Exif\0\0MM\0*\xff\xff\xff\xff")
    assert decode(tagged, "a", upright=True).size == (40, 30)


def test_a_picture_is_halved_until_it_is_below_twice_what_is_enough():
    picture = Image.fromarray(noise((64, 90, 3))).resize((720, 512))
    for kind in ("JPEG", "PNG"):
        file = io.BytesIO()
        picture.save(file, kind)
        assert decode(file.getvalue(), "a", enough=100).size == (180, 128)
        assert decode(file.getvalue(), "a", enough=257).size == (720, 512)


@pytest.mark.parametrize("content", [b"", b"no picture"])
def test_what_is_no_picture_has_no_thumbnail(content):
    with pytest.raises(CorruptPicture, match="picture 'a' cannot be read"):
        thumbnail(content, "a", 64)

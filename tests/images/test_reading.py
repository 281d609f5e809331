"""Every kind of file comes out upright, opaque and in 8 bits, or says why not."""

import io
import struct
import sys
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from nearkin.images.reading import ImageError, read_grey, read_window
from pictures import encoded, textured

RAMP = np.add.outer(np.arange(0, 120, 3), np.arange(0, 120, 2)).astype(np.uint8)  # 40×60
COLOUR = np.stack([RAMP, RAMP[::-1], np.full_like(RAMP, 90)], axis=-1)
FORMATS = ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF"]


def near(a, b, tolerance=4):
    return a.shape == b.shape and np.abs(a.astype(int) - b.astype(int)).mean() < tolerance


def rgb(data, shape=(40, 60)):
    return read_window(data, shape)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def handmade_png(width, height, depth, colour, rows):
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("fmt", FORMATS)
def test_formats_grey(fmt):
    assert near(read_grey(encoded(RAMP, fmt)), RAMP)


@pytest.mark.parametrize("fmt", FORMATS)
def test_formats_colour(fmt):
    tolerance = 12 if fmt == "GIF" else 5  # 256 colours
    assert near(rgb(encoded(COLOUR, fmt)), COLOUR, tolerance)


def test_from_a_path_with_spaces_and_unicode(tmp_path):
    path = tmp_path / "kätzchen – 子猫 1.png"
    path.write_bytes(encoded(RAMP))
    assert (read_grey(path) == RAMP).all()
    assert (read_grey(str(path)) == RAMP).all()


@pytest.mark.parametrize("fmt", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize(
    ("orientation", "turned"),
    [
        (1, lambda a: a),
        (2, np.fliplr),
        (3, lambda a: np.rot90(a, 2)),
        (4, np.flipud),
        (5, lambda a: a.T),
        (6, lambda a: np.rot90(a, 1)),
        (7, lambda a: np.rot90(a, 2).T),
        (8, lambda a: np.rot90(a, -1)),
    ],
)
def test_exif_rotation(fmt, orientation, turned):
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(np.ascontiguousarray(turned(RAMP))), fmt, exif=exif)
    assert near(read_grey(data), RAMP)


def test_damaged_exif_is_ignored():
    data = encoded(RAMP, "JPEG", exif=b"Exif\x00\x00II*\x00\xff\xff\xff\x7fgarbage")
    assert near(read_grey(data), RAMP)


@pytest.mark.parametrize("fmt", ["JPEG", "TIFF"])
def test_cmyk(fmt):
    data = encoded(Image.fromarray(COLOUR).convert("CMYK"), fmt)
    assert Image.open(io.BytesIO(data)).mode == "CMYK"
    assert near(rgb(data), COLOUR, 6)


@pytest.mark.parametrize("fmt", ["PNG", "TIFF"])
def test_sixteen_bit_grey(fmt):
    assert (read_grey(encoded(RAMP.astype(np.uint16) * 257, fmt)) == RAMP).all()


def test_sixteen_bit_colour():
    big_endian = (COLOUR.astype(np.uint16) * 257).astype(">u2")
    rows = b"".join(b"\x00" + row.tobytes() for row in big_endian)
    assert (rgb(handmade_png(60, 40, 16, 2, rows)) == COLOUR).all()


def test_thirty_two_bit_integers():
    assert (read_grey(encoded(RAMP.astype(np.int32) * 257, "TIFF")) == RAMP).all()
    with pytest.raises(ImageError, match="expected 0 to 65535"):
        read_grey(encoded(RAMP.astype(np.int32) * 100_000, "TIFF"))


def test_floats():
    assert (read_grey(encoded((RAMP / 255).astype(np.float32), "TIFF")) == RAMP).all()
    for wrong in (np.float32(7.5), np.float32(np.nan), np.float32(-1)):
        with pytest.raises(ImageError, match="expected 0 to 1"):
            read_grey(encoded(np.full((20, 20), wrong), "TIFF"))


def test_one_bit():
    image = Image.fromarray(RAMP > 100)
    assert image.mode == "1"
    assert (read_grey(encoded(image)) == np.where(RAMP > 100, 255, 0)).all()


@pytest.mark.parametrize("fmt", ["PNG", "GIF", "TIFF", "BMP"])
def test_palette(fmt):
    image = Image.fromarray(COLOUR).quantize(64)
    assert image.mode == "P"
    assert near(rgb(encoded(image, fmt)), COLOUR, 12)


@pytest.mark.parametrize("fmt", ["PNG", "WEBP", "TIFF"])
def test_alpha_is_composited_on_white(fmt):
    pixels = np.dstack([COLOUR, np.full_like(RAMP, 255)])
    pixels[:, :30] = (200, 0, 0, 0)
    pixels[:, 30:40, 3] = 128
    options = {"lossless": True, "exact": True} if fmt == "WEBP" else {}
    out = rgb(encoded(pixels, fmt, **options))
    assert (out[:, :29] == 255).all()
    assert (out[:, 40:] == COLOUR[:, 40:]).all()
    assert near(out[:, 31:39], (COLOUR[:, 31:39].astype(int) + 255) // 2, 2)


def test_grey_with_alpha_and_palette_with_transparency():
    grey = Image.merge("LA", [Image.fromarray(RAMP), Image.new("L", (60, 40), 0)])
    assert (read_grey(encoded(grey)) == 255).all()
    palette = Image.new("P", (20, 20), 3)
    palette.putpalette([10] * 768)
    for fmt in ("PNG", "GIF"):
        assert (read_grey(encoded(palette, fmt, transparency=3)) == 255).all()
        assert (read_grey(encoded(palette, fmt)) == 10).all()


def test_transparent_colour_of_an_opaque_mode():
    assert (read_grey(encoded(Image.new("L", (20, 20), 7), transparency=7)) == 255).all()


@pytest.mark.parametrize("fmt", ["GIF", "WEBP", "TIFF", "PNG"])
def test_first_frame(fmt):
    frames = [Image.new("RGB", (30, 20), colour) for colour in ("red", "blue")]
    data = encoded(frames[0], fmt, save_all=True, append_images=frames[1:])
    assert near(rgb(data, (20, 30)), np.asarray(frames[0]), 5)


def test_long_images_are_shrunk_and_short_ones_kept():
    assert read_grey(encoded(textured(0, 600, 900)), max_side=300).shape == (200, 300)
    assert read_grey(encoded(textured(0, 900, 30)), max_side=300).shape == (300, 10)
    assert read_grey(encoded(np.zeros((1, 5000), np.uint8)), max_side=300).shape == (1, 300)
    assert read_grey(encoded(RAMP), max_side=300).shape == RAMP.shape


def test_jpeg_read_at_reduced_size_is_the_same_picture():
    pixels = textured(1, 1600, 2400)
    small = np.asarray(Image.fromarray(pixels).resize((300, 200), Image.Resampling.BICUBIC))
    assert near(read_grey(encoded(pixels, "JPEG", quality=95), max_side=300), small, 2)


def test_transparent_images_shrink_without_dark_edges():
    pixels = np.zeros((400, 400, 4), np.uint8)
    pixels[:, 200:] = 255
    assert (read_grey(encoded(pixels), max_side=100) == 255).all()


def test_window_is_the_centre():
    pixels = np.zeros((100, 200, 3), np.uint8)
    pixels[:, 50:150] = 255
    assert (read_window(encoded(pixels), (50, 50), crop=0.9) == 255).all()
    assert (read_window(encoded(pixels), (50, 100))[:, :24] == 0).all()
    assert read_window(encoded(pixels), (32, 32), mode="L").shape == (32, 32)
    assert read_window(encoded(pixels[:4, :4]), (32, 16)).shape == (32, 16, 3)


@settings(max_examples=60, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 90), st.integers(1, 90)),
    size=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    crop=st.floats(0.05, 1),
)
def test_windows_of_any_size(shape, size, crop):
    data = encoded(np.full((*shape, 3), 77, np.uint8))
    assert (read_window(data, size, crop) == np.full((*size, 3), 77)).all()


@pytest.mark.filterwarnings("ignore:Image size")
@pytest.mark.parametrize("side", [11_000, 20_000, 65_000])
def test_decompression_bombs_are_refused(side):
    with pytest.raises(ImageError, match="pixels"):
        read_grey(handmade_png(side, side, 1, 0, b""))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not an image"),
        (b"just text", "not an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "not an image"),
        (encoded(textured(0))[:2000], "truncated|broken|Truncated"),
        (encoded(textured(0), "JPEG")[:900], "truncated"),
    ],
)
def test_reasons(data, reason):
    with pytest.raises(ImageError, match=reason):
        read_grey(data)


def test_reasons_of_the_file_system(tmp_path):
    with pytest.raises(ImageError, match="No such file"):
        read_grey(tmp_path / "nothing.png")
    with pytest.raises(ImageError, match="not a regular file"):
        read_grey(tmp_path)


@pytest.mark.filterwarnings("ignore")
@settings(max_examples=150, deadline=None)
@given(
    fmt=st.sampled_from(FORMATS),
    places=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=12),
    cut=st.integers(0, 400),
)
def test_damaged_files_give_an_image_or_a_reason(fmt, places, cut):
    data = bytearray(encoded(COLOUR, fmt))
    for place, value in places:
        data[place % len(data)] = value
    with suppress(ImageError):
        image = read_grey(bytes(data[: len(data) - cut]), max_side=300)
        assert image.dtype == np.uint8
        assert image.ndim == 2


def test_without_pillow_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"nearkin\[images\]"):
        read_grey(b"")


@pytest.mark.parametrize("max_side", [0, 2.5])
def test_a_side_is_a_whole_number(max_side):
    with pytest.raises(ValueError, match=f"max_side={max_side} must be a whole number"):
        read_grey(encoded(RAMP), max_side=max_side)

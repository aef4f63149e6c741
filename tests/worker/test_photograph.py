"""Each kind of PNG and JPEG, as the decoders of TensorFlow and MXNet read it.

The files are written byte by byte here: Pillow does not write all of these kinds.
"""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, UnidentifiedImageError

from suite.worker.photograph import rgb

GREY, RGB, GREY_ALPHA, RGB_ALPHA = 0, 2, 4, 6
CHANNELS = {GREY: 1, RGB: 3, GREY_ALPHA: 2, RGB_ALPHA: 4}


def png(path: Path, values: np.ndarray, kind: int, bits: int, extra: bytes = b"") -> Path:
    height, width = values.shape[:2]
    if bits < 8:
        each = np.unpackbits(values.astype(np.uint8)[..., None], axis=-1)[..., 8 - bits :]
        rows = [np.packbits(row.ravel()).tobytes() for row in each]
    else:
        rows = [row.astype(">u2" if bits == 16 else "u1").tobytes() for row in values]
    data = zlib.compress(b"".join(b"\0" + row for row in rows))
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, 0)
    body = part(b"IHDR", header) + extra + part(b"IDAT", data) + part(b"IEND", b"")
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def part(name: bytes, content: bytes) -> bytes:
    checksum = struct.pack(">I", zlib.crc32(name + content))
    return struct.pack(">I", len(content)) + name + content + checksum


@pytest.mark.parametrize("bits", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("kind", CHANNELS)
def test_every_depth_becomes_eight_bits_and_alpha_is_dropped(
    tmp_path: Path, kind: int, bits: int
) -> None:
    if bits < 8 and kind != GREY:
        return  # PNG has no such kind
    values = np.random.default_rng(bits).integers(0, 2**bits, (20, 30, CHANNELS[kind]))
    found = np.asarray(rgb(png(tmp_path / "a.png", values, kind, bits)))
    colours = values[..., :1] if kind in (GREY, GREY_ALPHA) else values[..., :3]
    expected = colours >> 8 if bits == 16 else colours * 255 // (2**bits - 1)
    assert np.array_equal(found, np.broadcast_to(expected, (20, 30, 3)))


def test_a_transparent_colour_is_a_colour(tmp_path: Path) -> None:
    values = np.arange(600).reshape(20, 30) * 100
    extra = part(b"tRNS", struct.pack(">H", 300))
    found = np.asarray(rgb(png(tmp_path / "a.png", values, GREY, 16, extra)))
    assert np.array_equal(found[..., 0], values >> 8)


def test_the_orientation_is_ignored_and_the_first_of_several_pictures_is_taken(
    tmp_path: Path,
) -> None:
    first, second = Image.new("RGB", (40, 20), "red"), Image.new("RGB", (40, 20), "blue")
    turned = Image.Exif()
    turned[0x0112] = 6
    first.save(tmp_path / "turned.jpg", exif=turned)
    first.save(tmp_path / "several.jpg", "MPO", save_all=True, append_images=[second])
    for name in ("turned.jpg", "several.jpg"):
        found = rgb(tmp_path / name)
        assert found.size == (40, 20) and np.asarray(found)[..., 0].min() > 250


@pytest.mark.parametrize("form", ["WEBP", "GIF", "BMP", "TIFF"])
def test_another_format_is_named(tmp_path: Path, form: str) -> None:
    Image.new("RGB", (9, 9)).save(tmp_path / "a.jpg", form)
    with pytest.raises(UnidentifiedImageError, match=f"^{form}, neither JPEG nor PNG"):
        rgb(tmp_path / "a.jpg")
    (tmp_path / "text.jpg").write_text("none")
    with pytest.raises(UnidentifiedImageError, match="cannot identify image file"):
        rgb(tmp_path / "text.jpg")

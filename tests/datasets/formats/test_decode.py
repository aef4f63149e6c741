from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from suite.datasets.formats.decode import Chunk, decode, photograph, pixels


def test_the_central_square_is_cropped(tmp_path: Path) -> None:
    """256 columns of red, green and blue each are scaled to 32 x 96, and 28 x 28 remain."""
    wide = np.zeros((256, 768, 3), np.uint8)
    for colour in range(3):
        wide[:, 256 * colour : 256 * (colour + 1), colour] = 200
    for name, values in (("wide.png", wide), ("tall.png", wide.transpose(1, 0, 2))):
        Image.fromarray(values).save(tmp_path / name)
        found = pixels(tmp_path / name, photograph(28))
        assert found.shape == (3, 28, 28)
        assert (found[1] == 200).all() and (found[[0, 2]] == 0).all()


def test_scaling_down_averages_pixels(tmp_path: Path) -> None:
    """A fine checkerboard becomes grey; without antialiasing it would stay black and white."""
    board = np.indices((512, 512)).sum(0) % 2 * 255
    Image.fromarray(board.astype(np.uint8)).save(tmp_path / "board.png")
    found = pixels(tmp_path / "board.png", photograph(28))
    assert np.abs(found.astype(int) - 127).max() < 8


@pytest.mark.parametrize("mode", ["L", "P", "1", "CMYK", "RGBA", "LA"])
def test_every_colour_mode_becomes_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("image.jpeg" if mode == "CMYK" else "image.png")
    Image.new("RGB", (1, 90), (255, 255, 255)).convert(mode).save(path)
    assert (pixels(path, photograph(28)) == 255).all()


def test_a_chunk_changes_only_its_own_rows(tmp_path: Path) -> None:
    target = tmp_path / "rows"
    row = 3 * 28 * 28
    target.write_bytes(bytes([9]) * (10 + 5 * row))
    for shade in (50, 100):
        Image.new("L", (28, 28), shade).save(tmp_path / f"{shade}.png")
    chunk = Chunk(split="train", first=1, names=["50.png", "none.png", "100.png"])
    unreadable = decode(chunk, tmp_path, target, 10, photograph(28))
    assert list(unreadable) == ["none.png"] and "No such file" in unreadable["none.png"]
    content = np.frombuffer(target.read_bytes(), np.uint8)
    assert (content[: 10 + row] == 9).all() and (content[10 + 4 * row :] == 9).all()
    rows = content[10 + row : 10 + 4 * row].reshape(3, -1)
    assert [np.unique(each).tolist() for each in rows] == [[50], [0], [100]]


def test_a_missing_folder_is_not_an_error_of_its_files(tmp_path: Path) -> None:
    chunk = Chunk(split="train", first=0, names=["a.png"])
    (tmp_path / "rows").touch()
    with pytest.raises(FileNotFoundError, match="gone"):
        decode(chunk, tmp_path / "gone", tmp_path / "rows", 0, photograph(28))


@pytest.mark.parametrize("size", [(1, 30000), (30000, 1)])
def test_only_the_middle_of_a_strip_is_scaled(
    tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scaled as a whole it would take gigabytes at 224."""
    strip = Image.new("RGB", size, "red")
    strip.paste(
        "blue", (size[0] // 2 - 20, size[1] // 2 - 20, size[0] // 2 + 20, size[1] // 2 + 20)
    )
    strip.save(tmp_path / "strip.png")
    scaled = []
    resize = Image.Image.resize
    monkeypatch.setattr(
        Image.Image, "resize", lambda *given: scaled.append(given[1]) or resize(*given)
    )
    found = pixels(tmp_path / "strip.png", photograph(28))
    assert (found[2] == 255).all() and (found[0] == 0).all()
    assert scaled and max(scaled[0]) <= 16 * 32

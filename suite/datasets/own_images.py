"""Folders of images of the user: the images are taken as they are, or scaled and cropped."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image

from suite.datasets import own_manifest
from suite.datasets.formats import image_folder, listing, prepared
from suite.datasets.formats.decode import Form
from suite.datasets.formats.listing import Listing
from suite.errors import DataError, UsageError
from suite.manifests.datasets import DatasetManifest
from suite.messages import Notify
from suite.paths import digest

ColorMode = Literal["grayscale", "rgb"]
GREY = ("1", "L", "LA", "I", "I;16", "I;16B")  # modes of Pillow
HINT = "--resize 72 --crop 64 scales the shorter side, and takes the centre"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What the user wants of the images, in pixels; None: as they are."""

    resize: int | None = None  # of the shorter side
    crop: int | None = None  # of the central square; after `resize` at most as large
    color_mode: ColorMode | None = None  # None: grayscale where all images are

    def check(self) -> None:
        """Raise UsageError where they contradict each other."""
        if self.resize and self.crop and self.crop > self.resize:
            raise UsageError(
                f"--crop {self.crop} is larger than --resize {self.resize}",
                hint=f"--resize {self.crop} --crop {self.crop}",
            )


@dataclass(frozen=True, kw_only=True)
class ImageSet:
    """A listed folder, and the form that its images get."""

    found: Listing
    form: Form

    @property
    def sha256(self) -> str:
        return digest([str(self.found.root), self.found.sha256, str(self.form)])

    def write(self, name: str, target: Path, notify: Notify) -> DatasetManifest:
        """Decode the images into `target`, the dataset `name`; DataError where that fails."""
        image_folder.write(name, self.form, target, self.found, notify)
        described = prepared.read(target)
        images = described.images if described else None
        assert images is not None  # it was written from a folder
        for note in images.remarks(target):
            notify(f"{name}: {note}")
        title = f"{self.found.root.name}, {sum(images.samples.values()):,} images"
        form, outputs = self.form.shape, len(images.classes)
        return own_manifest.describe(
            name, title, form, images.samples, pixels=True, outputs=outputs
        )


def read(root: Path, sizes: Sizes, share: float, notify: Notify) -> ImageSet:
    """List the images of a folder, and find their form from the headers of the files.

    Raise DataError where the folder has another layout, or the images have several sizes and the
    user names none.
    """
    sizes.check()
    found = listing.read(root.resolve(), share)
    if len(found.classes) < 2:
        raise DataError(f"{root} has one class, {found.classes[0]}", hint=listing.HINT)
    names = [name for names in found.names.values() for name in names]
    notify(f"{root.name}: {len(names):,} images, {len(found.classes)} classes")
    with warnings.catch_warnings(action="ignore"):  # about large images and metadata
        headers = [_header(found.root / name) for name in names]
    form = _form(headers, names, root, sizes)
    notify(f"{root.name}: {form.width} x {form.height} pixels, {form.channels} channels")
    return ImageSet(found=found, form=form)


Header = tuple[tuple[int, int], bool]  # width and height, and whether it is grey


def _header(path: Path) -> Header | None:
    """The size of an image and whether it is grey; None where the file is no image."""
    try:
        with Image.open(path) as image:
            return image.size, image.mode in GREY
    except Exception:  # decoders raise many kinds; the one of the pixels names the reason
        return None


def _form(headers: list[Header | None], names: list[str], root: Path, sizes: Sizes) -> Form:
    known = [each for each in headers if each]
    if not known:
        raise DataError(f"{root}: none of its {len(headers):,} files can be read", hint=HINT)
    found = "grayscale" if all(grey for _, grey in known) else "rgb"
    channels = 1 if (sizes.color_mode or found) == "grayscale" else 3
    if side := sizes.crop or sizes.resize:
        return Form(channels=channels, height=side, width=side, resize=sizes.resize)
    counts = Counter(size for size, _ in known)
    if len(counts) > 1:
        of_size = {each[0]: name for each, name in zip(headers, names, strict=True) if each}
        shown = ", ".join(
            f"{count:,} of {width} x {height} ({of_size[width, height]})"
            for (width, height), count in counts.most_common(2)
        )
        raise DataError(f"{root}: images of {len(counts):,} sizes: {shown}", hint=HINT)
    ((width, height),) = counts
    return Form(channels=channels, height=height, width=width, resize=None)

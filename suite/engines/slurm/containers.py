"""Images in files, and the commands that run workers in them: Apptainer's, and the plugin pyxis's.

All folders have the same path inside as outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from suite.engines.recipe import Recipe
from suite.errors import EngineError

PYTHON = "/opt/venv/bin/python"
WORKER_PATH = "/opt/dlsuite"  # the image's copy of the worker
APPTAINER, PYXIS, ARCHIVE = ".sif", ".sqsh", ".tar"
# The paths of trial.json to which a worker writes.
WRITTEN = ("results", "interleaving")


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a step runs in an image."""

    options: list[str] = field(default_factory=list)  # of srun
    command: list[str] = field(default_factory=list)  # before the command in the container


def image_file(folder: Path, recipe: Recipe) -> Path:
    """The file of an image, in a form that a runtime runs, else the archive of `images export`.

    Raise EngineError if there is none.
    """
    for suffix in (APPTAINER, PYXIS, ARCHIVE):
        file = folder / f"{recipe.file_name}{suffix}"
        if file.is_file():
            return file
    older = any(folder.glob(f"{recipe.framework}-{recipe.kind}-*"))
    raise EngineError(
        f"{folder} has no {'current ' if older else ''}image of {recipe.manifest.title}"
        f" ({recipe.file_name}{APPTAINER})",
        hint=f"where Docker is: dlsuite images export {folder}",
    )


def conversion(archive: Path, target: Path) -> list[str]:
    """The command that makes Apptainer's form of an image from the archive of `docker save`."""
    return ["apptainer", "build", "--force", str(target), f"docker-archive:{archive}"]


def launch(image: Path, folder: Path, paths: Mapping[str, str], *, gpus: bool) -> Launch:
    """How a step runs in an image.

    `folder` is the trial's, `paths` are those of its trial.json. pyxis gives the container its GPUs
    by itself.
    """
    mounts = [f"{path}:{path}:{mode}" for path, mode in _mounts(folder, paths).items()]
    if image.suffix == PYXIS:
        return Launch(
            options=[
                f"--container-image={image}",
                f"--container-mounts={','.join(mounts)}",
                f"--container-workdir={folder}",
                "--no-container-mount-home",
                "--no-container-entrypoint",
            ]
        )
    return Launch(
        command=[
            "apptainer",
            "--quiet",
            "exec",
            "--no-privs",
            *(["--nv"] if gpus else []),
            *(f"--bind={mount}" for mount in mounts),
            f"--pwd={folder}",
            str(image),
        ]
    )


def _mounts(folder: Path, paths: Mapping[str, str]) -> dict[str, str]:
    """The folders and files that a worker needs, by path: rw or ro."""
    modes = {str(folder): "rw"}
    for name, path in paths.items():
        if not Path(path).is_relative_to(folder):
            modes[path] = "rw" if name in WRITTEN else "ro"
    return modes

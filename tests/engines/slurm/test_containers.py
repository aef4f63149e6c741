"""Images in files: their names and commands; then workers in Apptainer on a real cluster."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from suite.engines import sessions
from suite.engines.recipe import Recipe
from suite.engines.slurm import containers
from suite.engines.slurm.cluster import Allocation
from suite.engines.slurm.engine import SlurmEngine
from suite.errors import EngineError
from suite.manifests import catalog
from suite.protocol.plan import Plan
from tests.conftest import made_up
from tests.engines.ranks import losses, none_left, train

FRAMEWORK = "mxnet"  # the smallest image with ranks


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return Recipe.of(catalog.framework(FRAMEWORK), "cpu")


def test_an_image_is_found_by_the_content_of_its_recipe(recipe: Recipe, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=f"has no image of MXNet .{recipe.file_name}.sif."):
        containers.image_file(tmp_path, recipe)
    (tmp_path / "mxnet-cpu-0123456789ab.sif").touch()
    with pytest.raises(EngineError, match="has no current image of MXNet"):
        containers.image_file(tmp_path, recipe)
    for suffix in (containers.ARCHIVE, containers.PYXIS, containers.APPTAINER):
        file = tmp_path / f"{recipe.file_name}{suffix}"
        file.touch()
        assert containers.image_file(tmp_path, recipe) == file


def test_a_container_gets_the_files_of_its_trial_and_no_others() -> None:
    paths = {"data": "/cache/mnist", "weights": "/cache/w.npy", "results": "/runs/trial/results"}
    folder = Path("/runs/trial")
    pyxis = containers.launch(Path("/images/a.sqsh"), folder, paths, gpus=True)
    mounts = "/runs/trial:/runs/trial:rw,/cache/mnist:/cache/mnist:ro,/cache/w.npy:/cache/w.npy:ro"
    assert f"--container-mounts={mounts}" in pyxis.options and pyxis.command == []
    apptainer = containers.launch(Path("/images/a.sif"), folder, paths, gpus=True)
    binds = [each for each in apptainer.command if each.startswith("--bind=")]
    assert binds == [f"--bind={mount}" for mount in mounts.split(",")]
    assert "--nv" in apptainer.command and apptainer.options == []


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the archive of one image, as the command writes it."""
    if shutil.which("apptainer") is None:
        if os.environ.get("DLSUITE_REQUIRE_APPTAINER"):
            pytest.fail("DLSUITE_REQUIRE_APPTAINER is set, and apptainer is not installed")
        pytest.skip("apptainer is not installed")
    folder = tmp_path_factory.mktemp("images")
    command = [Path(sys.executable).with_name("dlsuite"), "images", "export", str(folder)]
    subprocess.run([*command, "--framework", FRAMEWORK], check=True)
    return folder


@pytest.fixture(scope="module")
def engine(images: Path, cluster: None) -> Iterator[SlurmEngine]:
    allocation = Allocation(nodes=2)
    with SlurmEngine(sessions.new_id(), allocation, lambda text: None, images=images) as engine:
        yield engine


@pytest.mark.verify
@pytest.mark.slurm
@pytest.mark.docker
def test_two_nodes_train_one_model_in_containers(
    engine: SlurmEngine, recipe: Recipe, quick: Callable[..., Plan], home: Path, tmp_path: Path
) -> None:
    trial = quick(FRAMEWORK).trials[0]
    inputs, folder = made_up(trial.workload, tmp_path), tmp_path / "container"
    assert not engine.is_prepared(recipe.manifest)
    done = train(engine, trial, inputs, folder, device="cpu:1x2")
    assert (done.status, len(done.ranks)) == ("ok", 2), done.error
    first, second = losses(done)
    assert [each for each in first if each] == [each for each in second if each]
    assert not (home / "environments").exists()
    assert engine.is_prepared(recipe.manifest)


@pytest.mark.verify
@pytest.mark.slurm
@pytest.mark.docker
def test_a_killed_rank_in_a_container_ends_the_trial(
    engine: SlurmEngine, quick: Callable[..., Plan], tmp_path: Path
) -> None:
    trial = quick(FRAMEWORK).trials[0]
    inputs, folder = made_up(trial.workload, tmp_path), tmp_path / "killed-in-container"
    done = train(engine, trial, inputs, folder, device="cpu:1x2", kill=1, epochs=1000)
    assert done.status == "failed" and done.error
    assert done.error.message.startswith("rank 1: the process was killed")
    assert none_left(engine, folder)

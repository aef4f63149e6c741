"""Which engine is taken, and how it is said; where none answers, that is one clear line."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.engines import choice
from suite.engines.choice import EngineOptions
from suite.errors import EngineError, UsageError
from suite.worker import host


def chosen(wanted: EngineOptions, *frameworks: str) -> tuple[str, list[str]]:
    said: list[str] = []
    with choice.engine(wanted, frameworks or ("mxnet",), "owner0000000", said.append) as engine:
        return engine.name, said


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    address = f"unix://{tmp_path}/no.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    return address


def test_without_an_engine_auto_is_venv_and_says_why(nowhere: str) -> None:
    name, said = chosen(EngineOptions())
    assert name == "venv"
    assert said == [
        "engine: venv, each worker a process on this machine, for no Docker engine answers:"
        f" there is no socket at {nowhere}"
    ]


def test_without_an_engine_docker_is_an_error_and_so_is_what_only_it_can(nowhere: str) -> None:
    for wanted in (
        EngineOptions(engine="docker"),
        EngineOptions(gpus="1"),
        EngineOptions(memory="1GiB"),
    ):
        with pytest.raises(EngineError, match="there is no socket") as caught:
            chosen(wanted)
        assert "start Docker" in caught.value.hint


@pytest.fixture
def forbidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A socket that this user may not use."""
    path = tmp_path / "docker.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        path.chmod(0o000)
        tmp_path.chmod(0o755)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{path}")
        root = os.geteuid() == 0
        if root:
            for parent in list(path.parents)[:-2]:
                parent.chmod(0o755)
            os.seteuid(65534)
        try:
            yield
        finally:
            if root:
                os.seteuid(0)


def test_no_permission_for_the_socket_says_what_to_do(forbidden: None) -> None:
    with pytest.raises(EngineError, match="no permission for unix://") as caught:
        chosen(EngineOptions(engine="docker"))
    assert "group docker" in caught.value.hint


def test_a_size_or_an_engine_that_cannot_be_meant_is_refused() -> None:
    for memory in ("lots", "1MiB", "-1GiB"):
        with pytest.raises(UsageError, match="--memory"):
            EngineOptions(memory=memory).settings()
    assert EngineOptions(memory="8GiB").settings().memory_bytes == 8 * 2**30
    with pytest.raises(UsageError, match="venv engine limits no memory"):
        chosen(EngineOptions(engine="venv", memory="8GiB"))


def test_a_python_of_the_user_s_own_is_for_processes(tmp_path: Path) -> None:
    own = f"jax={sys.executable}"
    assert chosen(EngineOptions(pythons=(own,)))[0] == "venv"
    assert EngineOptions(pythons=(own,)).interpreters() == {"jax": Path(sys.executable)}
    with pytest.raises(UsageError, match="--python is for processes"):
        chosen(EngineOptions(engine="docker", pythons=(own,)))
    with pytest.raises(UsageError, match="unknown framework 'jaxx'; nearest: 'jax'"):
        chosen(EngineOptions(pythons=(f"jaxx={sys.executable}",)))
    with pytest.raises(UsageError, match="there is no file"):
        chosen(EngineOptions(pythons=(f"jax={tmp_path}/python",)))


def test_gpus_that_are_not_there_are_refused_by_what_is() -> None:
    if host.gpus():
        pytest.skip("there is a GPU")
    with pytest.raises(EngineError, match="nvidia-smi shows here are: none"):
        chosen(EngineOptions(engine="venv", gpus="1"))


def test_the_device_follows_the_gpus() -> None:
    assert (EngineOptions().device, EngineOptions(gpus="2").device) == ("cpu", "cuda:0")


@pytest.mark.docker
def test_auto_takes_the_engine_where_images_can_be_built() -> None:
    name, said = chosen(EngineOptions())
    assert name == "docker" and said[0].startswith("engine: docker ")


@pytest.mark.docker
def test_auto_is_venv_where_an_image_is_missing_and_its_base_is_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DLSUITE_BASE_IMAGE", "127.0.0.1:1/none:1")
    name, said = chosen(EngineOptions())
    assert name == "venv"
    assert "for MXNet has no image, and its base image 127.0.0.1:1/none:1 is not here" in said[0]

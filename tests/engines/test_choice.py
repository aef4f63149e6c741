"""The choice of an engine, its message, and its errors if no engine is available."""

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from suite.engines import choice
from suite.engines.options import EngineOptions
from suite.errors import EngineError, UsageError
from suite.worker import nvidia


def choose(options: EngineOptions, *frameworks: str) -> tuple[str, list[str]]:
    """The name of the chosen engine, and the messages."""
    messages: list[str] = []
    names = frameworks or ("mxnet",)
    with choice.engine(options, names, "session00000", messages.append) as engine:
        return engine.name, messages


@pytest.fixture
def missing_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """DOCKER_HOST names a socket that does not exist; returns its address."""
    address = f"unix://{tmp_path}/no.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    return address


def test_auto_chooses_venv_without_an_engine_and_names_the_reason(missing_socket: str) -> None:
    name, messages = choose(EngineOptions())
    assert name == "venv"
    assert messages == [
        "engine: venv (Docker unavailable: no Docker engine answers:"
        f" there is no socket at {missing_socket})"
    ]


@pytest.mark.parametrize(
    "options",
    [EngineOptions(engine="docker"), EngineOptions(memory="1GiB")],
)
def test_options_that_need_docker_are_an_error_without_an_engine(
    options: EngineOptions, missing_socket: str
) -> None:
    with pytest.raises(EngineError, match="there is no socket") as caught:
        choose(options)
    assert "start Docker" in caught.value.hint


@pytest.fixture
def forbidden_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """DOCKER_HOST names a socket that this user may not use."""
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


def test_a_socket_without_permission_is_an_error_with_a_hint(forbidden_socket: None) -> None:
    with pytest.raises(EngineError, match="no permission for unix://") as caught:
        choose(EngineOptions(engine="docker"))
    assert "group docker" in caught.value.hint


def test_an_invalid_memory_size_is_refused() -> None:
    for memory in ("lots", "1MiB", "-1GiB"):
        with pytest.raises(UsageError, match="--memory"):
            EngineOptions(memory=memory).settings()
    assert EngineOptions(memory="8GiB").settings().memory_bytes == 8 * 2**30


def test_the_venv_engine_refuses_a_memory_limit() -> None:
    with pytest.raises(UsageError, match="venv engine has no memory limit"):
        choose(EngineOptions(engine="venv", memory="8GiB"))


def test_the_users_python_requires_the_venv_engine(tmp_path: Path) -> None:
    python = f"jax={sys.executable}"
    assert choose(EngineOptions(pythons=(python,)))[0] == "venv"
    assert EngineOptions(pythons=(python,)).interpreters() == {"jax": Path(sys.executable)}
    with pytest.raises(UsageError, match="--python works only with the venv engine"):
        choose(EngineOptions(engine="docker", pythons=(python,)))
    with pytest.raises(UsageError, match="unknown framework 'jaxx'; nearest: 'jax'"):
        choose(EngineOptions(pythons=(f"jaxx={sys.executable}",)))
    with pytest.raises(UsageError, match="there is no file"):
        choose(EngineOptions(pythons=(f"jax={tmp_path}/python",)))


def test_missing_gpus_are_refused_and_the_present_ones_listed() -> None:
    if nvidia.find().gpus:
        pytest.skip("there is a GPU")
    with pytest.raises(EngineError, match="nvidia-smi shows here are: none"):
        choose(EngineOptions(engine="venv", gpus="1"))


def test_without_an_engine_auto_uses_the_gpus_of_the_machine(
    missing_socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """nvidia-smi is a script here: what it prints decides, and no worker is started."""
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'GPU-1, H200, 570.1, 143771 MiB'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert choose(EngineOptions(gpus="1"))[0] == "venv"
    program.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(EngineError, match=r"there is no socket.*without Docker.*here are: none"):
        choose(EngineOptions(gpus="1"))


def test_the_device_follows_the_gpus() -> None:
    devices = [EngineOptions(gpus=gpus).device for gpus in ("0", "1", "2", "all", "0,2")]
    assert devices == ["cpu", "cuda", "cuda:2", "cuda", "cuda:2"]


@pytest.mark.docker
def test_auto_chooses_docker_if_images_can_be_built() -> None:
    name, messages = choose(EngineOptions())
    assert name == "docker" and messages[0].startswith("engine: docker ")


@pytest.mark.docker
def test_auto_chooses_venv_if_an_image_and_its_base_image_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DLSUITE_BASE_IMAGE", "127.0.0.1:1/none:1")
    name, messages = choose(EngineOptions())
    assert name == "venv"
    assert "MXNet has no image, and its base image 127.0.0.1:1/none:1 is missing" in messages[0]


@pytest.mark.docker
def test_auto_keeps_docker_for_a_memory_limit_even_if_images_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DLSUITE_BASE_IMAGE", "127.0.0.1:1/none:1")
    assert choose(EngineOptions(memory="1GiB"))[0] == "docker"

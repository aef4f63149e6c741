"""Virtual environments by the real pip and venv, from two small wheels in a local folder."""

import hashlib
import os
import re
import shutil
import socket
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from suite.engines import pip
from suite.engines.errors import FrameworkUnavailable
from suite.engines.pip import PipOutput
from suite.engines.venv import environments, interpreters
from suite.errors import EngineError
from suite.manifests import catalog
from suite.manifests.frameworks import FrameworkManifest
from tests.conftest import serving


def wheel(folder: Path, version: str) -> str:
    """Write a wheel of the package `tiny`; return its line in a lock."""
    path = folder / f"tiny-{version}-py3-none-any.whl"
    info = f"tiny-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny.py", f"VERSION = {version!r}\n")
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return f"tiny=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def tiny(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FrameworkManifest:
    """A framework whose two locks can be installed from a folder of wheels."""
    wheels, locks = tmp_path / "wheels", tmp_path / "locks" / "tiny"
    wheels.mkdir()
    locks.mkdir(parents=True)
    (locks / "cpu.txt").write_text(wheel(wheels, "1.0"))
    (locks / "cuda.txt").write_text(wheel(wheels, "2.0"))
    monkeypatch.setattr(environments, "LOCKS", tmp_path / "locks")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    return FrameworkManifest(
        name="tiny",
        title="Tiny",
        packages=(),
        python=">=3.11",
        locks=("cpu.txt", "cuda.txt"),
        variants={"plain": "plain"},
    )


def installed(python: Path) -> str:
    """The text of the installed package `tiny`."""
    module = next(python.parent.parent.glob("lib/*/site-packages/tiny.py"))
    return module.read_text()


def test_an_environment_is_built_once_from_its_lock_and_reused(tiny: FrameworkManifest) -> None:
    messages: list[str] = []
    prepared = environments.ready(tiny, messages.append)
    assert interpreters.packages(prepared.python)[1:] == ["tiny==1.0"]  # only the lock's
    assert messages[0].startswith("Tiny: building its environment")
    messages.clear()
    assert environments.ready(tiny, messages.append) == prepared
    assert messages == []


def test_settings_of_pip_and_python_do_not_change_an_environment(
    tiny: FrameworkManifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "constraint.txt").write_text("tiny==9\n")
    (tmp_path / "pip.conf").write_text("[install]\nuser = yes\ndry-run = yes\n")
    for name, value in {
        "PIP_CONSTRAINT": str(tmp_path / "constraint.txt"),
        "PIP_USER": "1",
        "PIP_TARGET": str(tmp_path / "target"),
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_NO_BINARY": ":all:",
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
        "PYTHONHOME": "/nowhere",
    }.items():
        monkeypatch.setenv(name, value)
    assert "1.0" in installed(environments.ready(tiny, lambda text: None).python)


def test_an_incomplete_environment_is_built_again(tiny: FrameworkManifest) -> None:
    prepared = environments.ready(tiny, lambda text: None)
    folder = prepared.python.parent.parent
    (folder / "ready").unlink()
    (folder / "leftover").touch()
    environments.ready(tiny, lambda text: None)
    assert (folder / "ready").exists() and not (folder / "leftover").exists()


def test_an_environment_without_its_interpreter_is_built_again(tiny: FrameworkManifest) -> None:
    prepared = environments.ready(tiny, lambda text: None)
    for name in ("python", "python3"):
        link = prepared.python.with_name(name)
        link.unlink(missing_ok=True)
        link.symlink_to("/nowhere/python3")
    assert environments.ready(tiny, lambda text: None) == prepared
    assert prepared.python.exists()


def test_another_lock_gets_another_environment(tiny: FrameworkManifest) -> None:
    first = environments.ready(tiny, lambda text: None)
    lock = environments.LOCKS / "tiny" / "cpu.txt"  # type: ignore[attr-defined]
    lock.write_text(lock.read_text() + "# refreshed\n")
    second = environments.ready(tiny, lambda text: None)
    assert second.python != first.python and second.lock_sha256 != first.lock_sha256


def test_the_next_lock_is_used_if_the_first_cannot_be_installed(
    tiny: FrameworkManifest, tmp_path: Path
) -> None:
    next((tmp_path / "wheels").glob("tiny-1.0*")).unlink()
    prepared = environments.ready(tiny, lambda text: None)
    assert "2.0" in installed(prepared.python)
    messages: list[str] = []
    environments.ready(tiny, messages.append)
    assert messages == []  # the first lock is not tried again


def test_locks_that_cannot_be_installed_are_an_error_with_pips_reason(
    tiny: FrameworkManifest, tmp_path: Path, home: Path
) -> None:
    for path in (tmp_path / "wheels").iterdir():
        path.unlink()
    with pytest.raises(
        EngineError, match=r"Tiny cannot be installed: cpu.txt: No matching"
    ) as caught:
        environments.ready(tiny, lambda text: None)
    assert "tiny.log" in caught.value.hint
    assert "No matching distribution" in environments.log_path(tiny).read_text()
    assert not [path for path in (home / "environments").iterdir() if path.is_dir()]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo Collecting numpy; exec sleep 60", "printed nothing .* after: Collecting numpy"),
        ("kill -KILL $$", "pip was killed by SIGKILL; .* memory runs out"),
    ],
)
def test_a_silent_or_killed_pip_is_an_error_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    monkeypatch.setattr(environments, "SILENT_S", 0.5)
    output = PipOutput("Tiny", lambda text: None)
    with (tmp_path / "log").open("w") as log:
        command = ["sh", "-c", script]
        error = environments._install(command, log, output, environments.Builds())
    assert error and re.search(reason, error)


def test_a_wheel_with_another_hash_is_refused(tiny: FrameworkManifest, tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        path = tmp_path / "wheels" / f"tiny-{version}-py3-none-any.whl"
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("evil.py", "")
    with pytest.raises(EngineError, match="DO NOT MATCH THE HASHES"):
        environments.ready(tiny, lambda text: None)


def test_a_framework_without_a_fitting_python_is_unavailable(home: Path) -> None:
    mxnet = catalog.framework("mxnet").model_copy(update={"python": ">=2.6,<2.7"})
    with pytest.raises(FrameworkUnavailable, match=r"MXNet needs Python >=2.6,<2.7") as caught:
        environments.ready(mxnet, lambda text: None)
    assert "uv python install" in caught.value.hint


def test_a_framework_without_a_lock_for_gpus_is_unavailable_on_a_gpu(
    tiny: FrameworkManifest,
) -> None:
    (environments.LOCKS / "tiny" / "cuda.txt").unlink()  # type: ignore[attr-defined]
    with pytest.raises(FrameworkUnavailable, match="Tiny has no lock for a GPU") as unavailable:
        environments.ready(tiny, print, kind="cuda")
    assert unavailable.value.hint == "exclude it with --framework, or use a CPU"
    assert environments.needs_nothing(tiny, "cuda")


def test_a_stopped_build_ends_at_once_and_tries_no_other_lock(
    tiny: FrameworkManifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip waits for an index that accepts the connection and never answers."""
    builds = environments.Builds()
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    messages: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as silent, ThreadPoolExecutor() as pool:
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        building = pool.submit(environments.ready, tiny, messages.append, builds=builds)
        connection, _ = silent.accept()
        with connection:
            builds.stop()
            with pytest.raises(EngineError, match="cannot be installed"):
                building.result(timeout=60)
    assert messages == ["Tiny: building its environment (tiny/cpu.txt)"]


def test_the_wait_for_the_build_of_another_process_can_be_stopped(
    tiny: FrameworkManifest,
) -> None:
    builds = environments.Builds()
    version = environments._interpreter(tiny)[1]
    folder, *_ = environments._folders(tiny, version, "cpu").values()
    with environments._locked(folder, environments.Builds()), ThreadPoolExecutor() as pool:
        waiting = pool.submit(environments.ready, tiny, print, builds=builds)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.5)
        builds.stop()
        with pytest.raises(EngineError, match="cannot be installed"):
            waiting.result(timeout=60)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """The address of a package index with the wheels of `tiny`."""
    pages = tmp_path / "index" / "tiny"
    pages.mkdir(parents=True)
    links = []
    for path in (tmp_path / "wheels").iterdir():
        shutil.copy(path, pages)
        links.append(f'<a href="{path.name}">{path.name}</a>')
    (pages / "index.html").write_text("".join(links))
    with serving(tmp_path / "index") as url:
        yield url


def test_the_cpu_index_is_used_if_it_answers(
    tiny: FrameworkManifest, index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{index}/empty")
    with pytest.raises(EngineError, match="No matching distribution"):
        environments.ready(tiny, lambda text: None)
    prepared = environments.ready(tiny.model_copy(update={"cpu_index": index}), lambda text: None)
    assert "1.0" in installed(prepared.python)


def test_an_index_that_does_not_answer_is_omitted(tiny: FrameworkManifest, index: str) -> None:
    assert pip.answers(index)
    assert not pip.answers("http://127.0.0.1:9")
    closed = tiny.model_copy(update={"cpu_index": "http://127.0.0.1:9"})
    assert "1.0" in installed(environments.ready(closed, lambda text: None).python)
    assert "127.0.0.1" not in environments.log_path(tiny).read_text()


def test_a_framework_of_an_older_debian_runs_only_in_containers() -> None:
    with pytest.raises(FrameworkUnavailable, match="a package of Debian bullseye") as refused:
        environments.ready(catalog.framework("caffe"), print)
    assert "--engine docker" in refused.value.hint

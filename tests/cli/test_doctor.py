"""Folders that `dlsuite doctor` examines: full, noexec, or with a colon in their path."""

from __future__ import annotations

import pwd
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from suite.cli import doctor
from suite.engines import pip_settings
from suite.engines.venv import interpreters


@contextmanager
def small(folder: Path, options: str) -> Iterator[Path]:
    """A file system in memory with these options of mount."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "none", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def texts(monkeypatch: pytest.MonkeyPatch, home: Path) -> list[tuple[bool, str]]:
    monkeypatch.setenv("DLSUITE_HOME", str(home))
    return [(each.good, each.text) for each in doctor._folders()]


def test_a_folder_whose_files_cannot_be_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with small(tmp_path / "noexec", "noexec,size=8g") as place:
        (good, text), _ = texts(monkeypatch, place / "home")
    assert not good
    assert text.endswith("no file in it can be executed (noexec)")


def test_a_folder_that_is_almost_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small(tmp_path / "full", "size=1m") as place:
        (good, text), _ = texts(monkeypatch, place)
    assert not good
    assert "0.0 GiB free for environments and data, too little" in text


def test_a_path_with_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (good, text), _ = texts(monkeypatch, tmp_path / "a:b")
    assert not good and "its path has a colon" in text


def test_a_temporary_folder_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)  # where Python keeps its choice
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    _, (good, text), _ = texts(monkeypatch, tmp_path)
    assert not good and text.startswith(f"TMPDIR is {tmp_path / 'absent'}, where no file can be ")


def test_a_user_without_a_name_has_no_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As in a container that runs as `--user 12345`."""
    for name in ("HOME", "DLSUITE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    finding = next(doctor._folders())
    assert not finding.good and "export DLSUITE_HOME=FOLDER" in finding.text
    assert interpreters.find(">=3.11") and isinstance(pip_settings.settings(), dict)


def test_folders_that_cannot_be_looked_into_do_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as /root for another user; here the reason is another one, which root has too."""
    monkeypatch.setenv("DLSUITE_HOME", f"/{'x' * 300}")
    monkeypatch.setenv("PATH", f"/{'x' * 300}")
    monkeypatch.setattr(doctor, "_docker", list)
    assert any("File name too long" in each.text for each in doctor.examine())
    assert interpreters.find(">=3.11")


def test_each_engine_has_a_verdict() -> None:
    built = doctor.Finding(good=True, text="a", framework=True)
    open_ = doctor.Finding(good=True, text="b", next_step="dlsuite run", framework=True)
    stale = doctor.Finding(good=False, text="c", next_step="dlsuite images build", image=True)
    venv, docker, slurm = doctor.verdicts([built, open_, stale])
    later = "the others are made at their first use"
    assert venv == f"engine venv: usable: 1 of 2 environments are built; {later}"
    assert docker == f"engine docker: usable: 0 of 1 images are current; {later}"
    assert slurm.startswith("engine slurm: ")
    no_python = doctor.Finding(good=False, text="d", next_step="uv", framework=True)
    venv, docker, _ = doctor.verdicts([no_python])
    assert venv == "engine venv: not usable: no framework has its Python"
    assert docker == "engine docker: not usable: no engine answers"

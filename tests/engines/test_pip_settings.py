"""What of pip's surroundings reaches the installation of a lock."""

import os
from pathlib import Path

import pytest

from suite.engines import pip_settings
from suite.errors import EngineError


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """pip's file in an empty home; no variable of pip is set."""
    for name in os.environ:
        if name.startswith(("PIP_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "none"))
    monkeypatch.setattr(pip_settings, "SYSTEM", tmp_path / "none")
    path = tmp_path / ".config/pip/pip.conf"
    path.parent.mkdir(parents=True)
    return path


def test_only_settings_of_index_proxy_certificates_and_cache_are_kept(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text(
        "[global]\nindex-url = http://a/simple\nextra-index-url =\n  http://b\n  http://c\n"
        "timeout = 9\n[install]\nuser = yes\ntarget = /x\n"
        "proxy = http://p\nuse-feature = truststore\n"
    )
    monkeypatch.setenv("PIP_CONSTRAINT", "/etc/pip/constraint.txt")
    monkeypatch.setenv("PIP_INDEX_URL", "http://mine/simple")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("VIRTUAL_ENV", "/nowhere")
    monkeypatch.setenv("HTTPS_PROXY", "http://q")
    found = pip_settings.environment()
    assert {name: value for name, value in found.items() if name.startswith("PIP_")} == {
        "PIP_INDEX_URL": "http://mine/simple",
        "PIP_EXTRA_INDEX_URL": "http://b http://c",
        "PIP_TIMEOUT": "9",
        "PIP_PROXY": "http://p",
        "PIP_USE_FEATURE": "truststore",
        "PIP_CONFIG_FILE": os.devnull,
    }
    assert found["HTTPS_PROXY"] == "http://q"
    assert not found.keys() & {
        "PIP_CONSTRAINT",
        "PIP_USER",
        "PIP_TARGET",
        "PYTHONPATH",
        "VIRTUAL_ENV",
    }


def test_pips_files_can_be_turned_off(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.write_text("[global]\ntimeout = 9\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    assert pip_settings.settings() == {}


def test_a_file_of_pip_that_cannot_be_read_is_an_error_that_names_it(config: Path) -> None:
    config.write_text("timeout = 9\n")
    with pytest.raises(EngineError, match="pip's settings cannot be read") as caught:
        pip_settings.settings()
    assert str(config) in caught.value.hint

"""Credential helpers that are missing, late, or print something else: stubs on PATH."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from docker.auth import AuthConfig, load_config
from docker.errors import InvalidConfigFile

from suite.engines.docker import credentials
from suite.engines.docker.connection import sdk_errors
from suite.engines.docker.credentials import Credentials
from suite.engines.errors import EngineMisconfigured

REGISTRY = "registry.example"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Docker's config.json; the folder is on PATH."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path / "config.json"


def helper(folder: Path, script: str) -> None:
    path = folder / "docker-credential-stub"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def found(config: Path, settings: object) -> Credentials:
    config.write_text(json.dumps(settings))
    return Credentials.of(load_config())


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo garbage", "docker-credential-stub prints no JSON object"),
        ("true", "docker-credential-stub prints no JSON object"),
        ("echo '[1]'", "docker-credential-stub prints no JSON object"),
        ("printf '\\377\\376'", "docker-credential-stub prints no JSON object"),
        ("echo '{}'", "docker-credential-stub prints no Username and Secret"),
        ("echo 'gpg: decryption failed'; exit 2", "gpg: decryption failed"),
        ("kill -9 $$", "killed by signal 9"),
        ("sleep 60", "did not answer within 0.2 s"),
    ],
)
@pytest.mark.parametrize(
    "settings", [{"credsStore": "stub"}, {"credHelpers": {REGISTRY: "stub"}}], ids=str
)
def test_a_helper_that_gives_no_credentials_is_named_with_its_reason(
    config: Path, monkeypatch: pytest.MonkeyPatch, settings: object, script: str, reason: str
) -> None:
    monkeypatch.setattr(credentials, "TIMEOUT_S", 0.2 if "sleep" in script else 20)
    helper(config.parent, script)
    with pytest.raises(EngineMisconfigured, match=reason) as caught, sdk_errors():
        found(config, settings).resolve_authconfig(REGISTRY)
    assert str(config) in str(caught.value) and "\n" not in str(caught.value)


def test_a_helper_is_asked_for_a_registry_and_for_all(config: Path) -> None:
    script = """
    read -r server || true
    case "$1" in
    list) echo '{"registry.example": "me"}' ;;
    get) printf '{"Username": "me", "Secret": "of %s"}' "$server" ;;
    esac"""
    helper(config.parent, script)
    known = found(config, {"credsStore": "stub"})
    expected = {"ServerAddress": REGISTRY, "Username": "me", "Password": f"of {REGISTRY}"}
    assert known.resolve_authconfig(REGISTRY) == expected
    assert known.get_all_credentials() == {REGISTRY: expected}


@pytest.mark.parametrize(
    "script",
    [
        "echo 'credentials not found in native keychain'; exit 1",
        'echo \'{"Username": "", "Secret": ""}\'',
    ],
)
def test_a_registry_without_credentials_is_used_without(config: Path, script: str) -> None:
    helper(config.parent, script)
    assert found(config, {"credsStore": "stub"}).resolve_authconfig(REGISTRY) is None


def test_a_helper_that_is_missing_is_named(config: Path) -> None:
    with (
        pytest.raises(EngineMisconfigured, match="docker-credential-none: not on PATH"),
        sdk_errors(),
    ):
        found(config, {"credsStore": "none"}).resolve_authconfig(REGISTRY)


def test_a_list_that_fails_is_no_bug(config: Path) -> None:
    helper(config.parent, "exit 3")
    with pytest.raises(EngineMisconfigured, match="exit code 3"), sdk_errors():
        found(config, {"credsStore": "stub"}).get_all_credentials()


def test_helpers_that_are_no_object_are_refused() -> None:
    with pytest.raises(InvalidConfigFile, match="credHelpers"):
        Credentials.of(AuthConfig({"credHelpers": ["stub"]}))

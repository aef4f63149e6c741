"""The settings under which pip installs a lock: how it reaches packages, and nothing else.

A lock decides what is installed. PIP_CONSTRAINT (which NVIDIA's containers set), PIP_USER, a target
folder in pip.conf or PYTHONPATH would change it or make it fail. Kept are the settings of index,
proxy, certificates and cache, from the environment and from pip's files.

This module needs only the standard library: scripts/isolated_pip.py uses it before there is an
environment.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from suite.errors import EngineError
from suite.paths import user_home

KEPT = frozenset(
    {
        "index-url",
        "extra-index-url",
        "no-index",
        "find-links",
        "trusted-host",
        "proxy",
        "cert",
        "client-cert",
        "cache-dir",
        "no-cache-dir",
        "timeout",
        "default-timeout",
        "retries",
        "resume-retries",
        "keyring-provider",
    }
)
# Of these settings, only values that concern certificates.
CERTIFICATES = {"use-feature": "truststore", "use-deprecated": "legacy-certs"}
SECTIONS = ("global", "install", "download")  # the last one wins, as in pip
REMOVED = ("PIP_", "PYTHON", "CONDA_", "VIRTUAL_ENV", "UV_", "__PYVENV")
SYSTEM = Path("/etc/pip.conf")
KEYRING = "PYTHON_KEYRING_BACKEND"


def environment() -> dict[str, str]:
    """The variables for pip and venv; EngineError where a file of pip cannot be read."""
    others = {
        name: value
        for name, value in os.environ.items()
        if name == KEYRING or not name.startswith(REMOVED)
    }
    variables = {_variable(name): value for name, value in settings().items()}
    return {**others, **variables, "PIP_CONFIG_FILE": os.devnull}


def settings() -> dict[str, str]:
    """The kept settings by pip's names; the environment comes before the files.

    Several values are separated by spaces. Raise EngineError where a file cannot be read.
    """
    found: dict[str, str] = {}
    by_section: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for path in _files(os.environ):
        for section, values in _read(path).items():
            by_section[section] |= values
    for section in SECTIONS:
        found |= by_section[section]
    for variable, value in os.environ.items():
        if variable.startswith("PIP_") and value:
            found[_name(variable.removeprefix("PIP_"))] = value
    return dict(_kept(found))


def _kept(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in found.items():
        if name in KEPT:
            yield name, " ".join(value.split())
        elif CERTIFICATES.get(name) in value.split():
            yield name, CERTIFICATES[name]


def _files(variables: Mapping[str, str]) -> Iterator[Path]:
    """pip's files that exist, the least important first."""
    named = variables.get("PIP_CONFIG_FILE")
    if named == os.devnull:  # which turns all of them off
        return
    home = user_home()
    config = Path(variables.get("XDG_CONFIG_HOME") or home / ".config")
    systems = (variables.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    places = [*(Path(folder) / "pip/pip.conf" for folder in systems), SYSTEM]
    if sys.platform == "darwin":
        places = [Path("/Library/Application Support/pip/pip.conf")]
        own = home / "Library/Application Support/pip"
        config = own.parent if own.is_dir() else home / ".config"
    places += [home / ".pip/pip.conf", config / "pip/pip.conf", Path(sys.prefix) / "pip.conf"]
    if named:
        places.append(Path(named))
    yield from (path for path in places if os.access(path, os.F_OK))


def _read(path: Path) -> dict[str, dict[str, str]]:
    """The settings in a file of pip, by section."""
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8", errors="replace"), str(path))
    except (OSError, configparser.Error) as error:
        reason = " ".join(str(error).split())
        raise EngineError(f"pip's settings cannot be read: {reason}", hint=f"edit {path}") from None
    return {
        section: {_name(name): value for name, value in parser.items(section) if value}
        for section in SECTIONS
        if parser.has_section(section)
    }


def _name(text: str) -> str:
    return text.lower().replace("_", "-").removeprefix("--")


def _variable(name: str) -> str:
    return "PIP_" + name.upper().replace("-", "_")

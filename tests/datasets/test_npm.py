"""npm's own reason for a missing package, from stub programs on PATH."""

import errno
import os
from pathlib import Path

import pytest

from suite.datasets import npm
from suite.web import Limits

ERROR = """cat <<'END'
A new major version of npm {is} available
{"error": {"code": "%s", "summary": "%s", "detail": "long"}}
END
echo 'npm error A complete log of this run can be found in: /x' >&2; exit 1"""


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make `npm` from the lines of a shell script."""
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    def make(script: str) -> None:
        (tmp_path / "npm").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "npm").chmod(0o755)

    return make


def pack(folder: Path, messages: list[str], **limits: float) -> Path:
    return npm.pack("some@1.0", folder, limits=Limits(**limits), notify=messages.append)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (ERROR % ("E404", "Not Found - GET some"), r"^E404 Not Found - GET some$"),
        (ERROR % ("ENOTFOUND", "getaddrinfo"), r"^ENOTFOUND getaddrinfo$"),
        ("echo 'npm ERR! no json here' >&2; exit 1", r"npm ERR! no json here"),
        ("echo '[]'", r"npm pack made no archive"),
    ],
)
def test_the_reason_is_npms_own(stub, tmp_path: Path, script: str, reason: str) -> None:
    stub(script)
    with pytest.raises(npm.NoPackage, match=reason):
        pack(tmp_path, [])


def test_npm_ends_at_the_limit_of_time_and_is_said_to_run(stub, tmp_path: Path) -> None:
    stub("sleep 60")
    messages: list[str] = []
    with pytest.raises(npm.NoPackage, match=r"did not answer within 0\.15 s"):
        pack(tmp_path, messages, whole_s=0.15, progress_s=0.05)
    assert messages and messages[0].startswith("npm package some@1.0: npm fetches it")


def test_a_full_disk_is_not_a_missing_package(stub, tmp_path: Path) -> None:
    stub(ERROR % ("ENOSPC", "ENOSPC: no space left on device, write"))
    with pytest.raises(OSError, match="No space left") as caught:
        pack(tmp_path, [])
    assert caught.value.errno == errno.ENOSPC


def test_an_archive_after_a_banner(stub, tmp_path: Path) -> None:
    stub("echo banner; touch some-1.0.tgz")
    assert pack(tmp_path, []) == tmp_path / "some-1.0.tgz"

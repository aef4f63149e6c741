"""Locks, and file systems without them."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from suite import locks
from suite.errors import EngineError


def test_a_second_descriptor_is_refused_until_the_first_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    first, second = locks.opened(path), locks.opened(path)
    assert locks.try_lock(first, path) and not locks.try_lock(second, path)
    os.close(first)
    assert locks.try_lock(second, path)
    os.close(second)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF])
def test_a_file_system_without_locks_is_refused_with_its_folder(
    number: int, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, kind: int) -> None:
        raise OSError(number, os.strerror(number))

    home.mkdir()
    path = home / "lock"
    descriptor = locks.opened(path)
    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(EngineError, match=f"files in {home} cannot be locked") as caught:
        locks.try_lock(descriptor, path)
    os.close(descriptor)
    assert "export DLSUITE_HOME=" in caught.value.hint

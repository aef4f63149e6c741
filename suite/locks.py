"""Locks on files, which the kernel releases when their process ends, however it ends.

All locks of the host are taken here. Some file systems have none (NFS without its lock service,
Lustre without the mount option flock). There two dlsuite could build into one folder or remove each
other's containers, so the folder is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from suite.errors import EngineError
from suite.paths import home

UNSUPPORTED = (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)


def opened(path: Path) -> int:
    """A descriptor of a file to lock, which is created where it is missing.

    It is open for writing where that is allowed: NFS locks no other file. A file of another user
    may be readable only; in a sticky folder as /tmp, O_CREAT would fail on it.
    """
    for flags in (os.O_RDWR, os.O_RDONLY):
        try:
            return os.open(path, flags | os.O_CLOEXEC)
        except FileNotFoundError:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except PermissionError:
            if flags == os.O_RDONLY:
                raise
    raise AssertionError("unreachable")


def try_lock(descriptor: int, path: Path, *, shared: bool = False) -> bool:
    """Lock an open file; False where another process holds it.

    `path` is its path, for the message. Raise EngineError where its file system has no locks.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno == errno.EBADF or error.errno in UNSUPPORTED:
            raise _refused(path, error) from None
        raise
    return True


def _refused(path: Path, error: OSError) -> EngineError:
    variable = "DLSUITE_HOME" if path.is_relative_to(home()) else "TMPDIR"
    reason = error.strerror
    if error.errno == errno.EBADF:
        reason = "the lock file is another user's, and NFS locks only files that can be written"
    return EngineError(
        f"files in {path.parent} cannot be locked: {reason}",
        hint=f"export {variable}=FOLDER, a folder on a local disk or on a file system with locks"
        " (NFS: rpc.statd; Lustre: mount option flock)",
    )

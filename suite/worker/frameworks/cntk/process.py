"""CNTK's process: the libraries that it needs, and its start."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from ...child import Child
from ...programs import ask

# What CNTK is linked to, of Open MPI 1.10, and the libraries of Open MPI 3 and 4 with the same
# functions.
LIBRARIES = {"libmpi.so.12": "libmpi.so.40", "libmpi_cxx.so.1": "libmpi_cxx.so.40"}
SEARCH_PATH = "LD_LIBRARY_PATH"
ANSWER_S = 60.0


def start() -> Child:
    """CNTK's process; RuntimeError where it cannot be started."""
    return Child("CNTK", "python36", Path(__file__).parent, libraries())


def libraries() -> dict[str, str]:
    """The variable by which CNTK finds Open MPI; RuntimeError where that is missing."""
    folders = [str(_links()), os.environ.get(SEARCH_PATH, "")]
    return {SEARCH_PATH: os.pathsep.join(filter(None, folders))}


def _links() -> Path:
    """A folder with the libraries of Open MPI under the names that CNTK knows."""
    folder = Path(tempfile.mkdtemp(prefix="cntk-"))
    answer = ask(["/sbin/ldconfig", "-p"], timeout_s=ANSWER_S)
    for name, present in LIBRARIES.items():
        found = re.search(rf"^\s*{re.escape(present)} .*=> (\S+)$", answer.output, re.MULTILINE)
        if not found:
            problem = answer.problem or f"{present} is missing (Debian's package libopenmpi3)"
            raise RuntimeError(f"CNTK needs Open MPI: {problem}")
        (folder / name).symlink_to(found[1])
    return folder

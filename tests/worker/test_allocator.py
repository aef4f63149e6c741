"""Memory that a reference frees serves its next tensors."""

import subprocess
import sys

import pytest

from suite.paths import REPOSITORY

FAULTS = """
import resource

from suite.worker.allocator import keep_freed_memory

def page_faults_of(size):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(size)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

pages = SIZE // resource.getpagesize()
for kept in (False, True):
    if kept:
        keep_freed_memory()
    first, second = page_faults_of(SIZE), page_faults_of(SIZE)
    print(second < pages // 100)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has this allocator")
def test_freed_memory_is_used_again_without_page_faults() -> None:
    code = FAULTS.replace("SIZE", str(64 * 2**20))
    reply = subprocess.run(
        [sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert reply.stdout.split() == ["False", "True"]

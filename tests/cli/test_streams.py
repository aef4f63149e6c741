"""Standard output as it is found: in a process of its own, as the interpreter ends there."""

import os
import subprocess
import sys

import pytest

from suite.cli import streams

PROGRAM = """
import sys
from suite.cli import streams
streams.configure()
for _ in range(3):
    print("a  ±1.3%  4  │ ✓ 274 µs … \\udcff", flush=True)
opened = open(sys.argv[1], "w")
reason = streams.lost()
sys.stderr.write(f"{opened.fileno() > 2} {reason}")
"""


def shown(redirection: str, tmp: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    command = ["bash", "-c", f'"$@" {redirection}', "-", sys.executable, "-c", PROGRAM, tmp]
    return subprocess.run(command, env={**os.environ, **environ}, capture_output=True, check=False)


@pytest.mark.parametrize("encoding", ["ascii", "ascii:strict", "latin-1", "cp1252", "utf-8"])
def test_what_a_stream_cannot_show_is_replaced(encoding: str, tmp_path: os.PathLike[str]) -> None:
    reply = shown("", f"{tmp_path}/x", PYTHONIOENCODING=encoding)
    assert (reply.returncode, reply.stderr) == (0, b"True None")
    line = reply.stdout.decode(encoding.partition(":")[0]).splitlines()[0]
    expected = "a  ±1.3%  4  │ ✓ 274 µs … \\xff"
    for character in expected:
        try:
            character.encode(encoding.partition(":")[0])
        except UnicodeEncodeError:
            expected = expected.replace(character, streams.ascii_of(character))
    assert line.replace(" ", "") == expected.replace(" ", "")
    assert line.index("4") == 10  # the column stays where it is


@pytest.mark.parametrize(
    ("redirection", "reason"),
    [
        ("> /dev/full", b"True No space left on device"),
        (">&-", b"True None"),
        ("> >(exec true)", b"True None"),
    ],
)
def test_an_output_that_takes_nothing_raises_nothing(
    redirection: str, reason: bytes, tmp_path: os.PathLike[str]
) -> None:
    """A full disk is named; a reader that ended, and an output that is closed, are as wanted."""
    reply = shown(redirection, f"{tmp_path}/x")
    assert (reply.returncode, reply.stderr) == (0, reason)

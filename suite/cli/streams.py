"""Standard output and standard error as they are found: any encoding, closed, full, or not read.

No command has to care: a text that a stream cannot show is replaced, and a failure to write is
remembered instead of raised, because it must not end a measurement.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import re
import select
import sys
import unicodedata

READABLE = "readable"  # the name of the error handler
# What has no decomposition into ASCII (NFKD); a character of a table's lines keeps its width.
ASCII = {
    **dict(zip("▁▂▃▄▅▆▇█", "_.,-=+*#", strict=True)),
    **dict.fromkeys("─━═╌╍╴╶╸╺", "-"),
    **dict.fromkeys("│┃║╎╏", "|"),
    **dict.fromkeys(map(chr, range(0x2010, 0x2016)), "-"),  # hyphens and dashes
    **dict.fromkeys(map(chr, (0x2018, 0x2019, 0x201A, 0x2032)), "'"),
    **dict.fromkeys(map(chr, (0x201C, 0x201D, 0x201E)), '"'),
    **{"±": "+-", "µ": "u", "μ": "u", "°": " deg", "×": "x", "÷": "/", "·": ".", "•": "*"},  # noqa: RUF001
    **{"✓": "ok", "✗": "no", "→": "->", "←": "<-", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~"},
}
OTHER_BOX, BRAILLE = range(0x2500, 0x2580), range(0x2801, 0x2900)  # corners; Rich's spinner
ESCAPED = range(0xDC80, 0xDD00)  # bytes of a file's name that are no UTF-8
PADDING = re.compile(r"[^\n]*?  ")


class _Output(io.FileIO):
    """A file descriptor whose failures to write are remembered, not raised."""

    failure: OSError | None = None

    def write(self, data: object) -> int:
        size = memoryview(data).nbytes  # type: ignore[arg-type]
        if self.failure:
            return size
        try:
            # None: the other side of a pipe has set it to non-blocking, and it is full.
            while (written := super().write(data)) is None:  # type: ignore[arg-type]
                select.select([], [self], [])
        except OSError as error:
            self.failure = error
            return size
        return written


def configure() -> None:
    """Let standard output and error take any text, and fail without an exception.

    Streams that a caller replaced, such as a test, stay as they are.
    """
    codecs.register_error(READABLE, _readable)
    _open_descriptors()
    for name, descriptor in (("stdout", 1), ("stderr", 2)):
        found = getattr(sys, name)
        if found is getattr(sys, f"__{name}__"):
            setattr(sys, name, _stream(found, descriptor))


def lost() -> str | None:
    """Why not all of the standard output was written; None where it was, or nobody reads it."""
    output = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if not isinstance(output, _Output):
        return None
    sys.stdout.flush()
    # A reader that ends early has what it wants: `dlsuite report | head -1`.
    if output.failure is None or output.failure.errno == errno.EPIPE or output.isatty():
        return None
    return output.failure.strerror or str(output.failure)


def _open_descriptors() -> None:
    """Open the closed ones among 0, 1 and 2: the next file would get the number, and the output."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free


def _stream(found: io.TextIOWrapper | None, descriptor: int) -> io.TextIOWrapper:
    """A stream in the encoding of the one that Python made, or None where it was closed."""
    if found is not None:
        found.flush()
    output = _Output(descriptor, "wb", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding=found.encoding if found is not None else "utf-8",
        errors=READABLE,
        line_buffering=descriptor == 2 or output.isatty(),
    )


def _readable(error: UnicodeError) -> tuple[str, int]:
    """Replace what the encoding lacks, a character each or a short word.

    A longer word takes a space of the cell's padding, so that a table's other columns stay.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text, end = error.object, error.end
    shown = ascii_of(text[error.start : end])
    longer = len(shown) > end - error.start
    if longer and (cell := PADDING.match(text, end)) and cell[0].isascii():
        return shown + cell[0][:-1], cell.end()
    return shown, end


def ascii_of(text: str) -> str:
    """The text in ASCII; `?` for what has no readable form there."""
    return "".join(map(_ascii, text))


def _ascii(character: str) -> str:
    if character.isascii():
        return character
    if character in ASCII:
        return ASCII[character]
    code = ord(character)
    if code in OTHER_BOX or code in BRAILLE:
        return "+" if code in OTHER_BOX else "*"
    if code in ESCAPED:
        return f"\\x{code - 0xDC00:02x}"
    parts = unicodedata.normalize("NFKD", character)
    return "".join(part for part in parts if part.isascii()) or "?"

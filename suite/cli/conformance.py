"""The command `conformance`."""

from __future__ import annotations

from typing import Annotated

import typer

from suite.errors import ConformanceFailed
from suite.worker.protocol import SCHEMA_VERSION


def conformance(
    command: Annotated[
        list[str], typer.Argument(help="The worker's command; a trial's folder is appended.")
    ],
    framework: Annotated[
        str,
        typer.Option(
            "--framework",
            "-f",
            help="FRAMEWORK or FRAMEWORK:VARIANT of the trials; its manifest says what it can do.",
        ),
    ] = "pytorch",
) -> None:
    """Test whether a worker, in any language, follows the protocol (docs/reference/protocol.md).

    Example: dlsuite conformance --framework onednn -- ./my-worker --fast
    """
    from suite.runner.conformance import check

    problems = check(command, framework=framework)
    if problems:
        print("\n".join(problems))
        count, first = len(problems), problems[0]
        raise ConformanceFailed(
            f"{count} violations of the protocol, the first: {first}",
            hint="docs/reference/protocol.md",
        )
    print(f"conforms to protocol version {SCHEMA_VERSION}")

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
) -> None:
    """Test whether a worker, in any language, follows the protocol (docs/protocol.md).

    Example: dlsuite conformance -- ./my-worker --fast
    """
    from suite.runner.conformance import check

    problems = check(command)
    if problems:
        print("\n".join(problems))
        count, first = len(problems), problems[0]
        raise ConformanceFailed(
            f"{count} violations of the protocol, the first: {first}", hint="docs/protocol.md"
        )
    print(f"conforms to protocol version {SCHEMA_VERSION}")

"""A program `sky` for tests: it keeps its machines in a folder, and fails as it is asked.

FAKE_SKY names the folder. In it, `machines/NAME` has the status of a machine, `requests/ID` the
machine of a request, `calls` every command; a file `ill` has words, one for each way to fail.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from pathlib import Path

FOLDER = Path(os.environ["FAKE_SKY"])
MACHINES, REQUESTS = FOLDER / "machines", FOLDER / "requests"


def ill(word: str) -> bool:
    path = FOLDER / "ill"
    return path.exists() and word in path.read_text().split()


def launch(name: str) -> int:
    """A launch whose server goes on when the client is killed."""
    request = REQUESTS / uuid.uuid4().hex
    request.write_text(name)
    (MACHINES / name).write_text("INIT")
    if ill("never-up"):
        time.sleep(60)
    if ill("no-capacity"):
        (MACHINES / name).unlink()
        print("ResourcesUnavailableError: no capacity in any zone")
        request.unlink()
        return 1
    (MACHINES / name).write_text("UP")
    if ill("never-ends"):
        time.sleep(60)
    if ill("setup-fails"):  # and the machine stays
        print("RuntimeError: set-up failed")
        request.unlink()
        return 1
    if ill("taken"):  # a spot machine, or scancel
        (MACHINES / name).unlink()
        request.unlink()
        print("the machine was preempted")
        return 1
    request.unlink()
    return 100 if ill("job-fails") else 0


def status() -> int:
    if ill("status-fails"):
        print("sky.exceptions.ApiServerConnectionError: no server", file=sys.stderr)
        return 1
    if ill("status-empty"):
        return 0
    if ill("status-html"):
        print("<html>login</html>")
        return 0
    if ill("status-half"):
        print('[{"name": "a", "sta')
        return 0
    found = [{"name": each.name, "status": each.read_text()} for each in MACHINES.iterdir()]
    print("D 11-28 a banner of a library\n" + json.dumps(found, indent=2))
    return 0


def requests() -> int:
    found = [
        {"request_id": each.name, "cluster_name": each.read_text()} for each in REQUESTS.iterdir()
    ]
    print(json.dumps(found))
    return 0


def down(name: str) -> int:
    if ill("down-fails"):
        print("ApiException: 500", file=sys.stderr)
        return 1
    lies = FOLDER / "lies"  # how often `down` says done when it is not
    left = int(lies.read_text()) if lies.exists() else 0
    if left:
        lies.write_text(str(left - 1))
    else:
        (MACHINES / name).unlink(missing_ok=True)
    print(f"Terminating cluster {name}...done.")
    return 0


def main(arguments: list[str]) -> int:
    with (FOLDER / "calls").open("a") as calls:
        calls.write(" ".join(arguments) + "\n")
    match arguments:
        case ["launch", "--yes", "--cluster", name, _]:
            return launch(name)
        case ["status", *_]:
            return status()
        case ["api", "status", *_]:
            return requests()
        case ["api", "cancel", "--yes", *ids]:
            for each in ids:
                (REQUESTS / each).unlink()
            return 0
        case ["down", "--yes", name]:
            return down(name)
    print(f"unknown: {arguments}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

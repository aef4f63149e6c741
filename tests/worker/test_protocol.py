"""The worker's events and settings."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from suite.worker import frameworks
from suite.worker.protocol import Trial

EMIT = """
import sys
from pathlib import Path
from suite.worker.protocol import Events
events = Events(Path(sys.argv[1]))
print("output of a library")
events.emit("started")
"""


def test_events_go_to_file_and_standard_output_and_libraries_write_to_standard_error(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", EMIT, str(tmp_path)]
    reply = subprocess.run(command, capture_output=True, text=True, check=True)
    assert reply.stdout == (tmp_path / "events.jsonl").read_text()
    assert json.loads(reply.stdout)["event"] == "started"
    assert reply.stderr == "output of a library\n"


def test_on_a_full_disk_events_still_go_to_standard_output(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this machine has no /dev/full")
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    command = [sys.executable, "-c", EMIT, str(tmp_path)]
    reply = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reply.returncode and "No space left on device" in reply.stderr
    assert json.loads(reply.stdout)["event"] == "started"


def test_an_unknown_framework_or_setting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(SETTINGS=("search",))
    monkeypatch.setattr(frameworks, "names", lambda: ["plain", "searching"])
    monkeypatch.setitem(sys.modules, f"{frameworks.__name__}.plain.session", SimpleNamespace())
    monkeypatch.setitem(sys.modules, f"{frameworks.__name__}.searching.session", module)
    monkeypatch.setenv(frameworks.VARIANT, "")
    values = dict.fromkeys(field.name for field in fields(Trial))
    trial = Trial(**values | {"framework": "plain", "variant": "v", "settings": {}})
    frameworks.load(trial)
    with pytest.raises(NotImplementedError, match="plain has no settings search"):
        frameworks.load(replace(trial, settings={"search": True}))
    assert frameworks.load(replace(trial, framework="searching", settings={"search": True}))
    with pytest.raises(NotImplementedError, match="this worker has no framework 'other'"):
        frameworks.load(replace(trial, framework="other"))

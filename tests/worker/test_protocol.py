"""What a worker says is heard even where it cannot be written."""

import json
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from suite.worker import frameworks
from suite.worker.protocol import Trial

SAY = """
import sys
from dataclasses import fields, replace
from pathlib import Path
from suite.worker.protocol import Events
events = Events(Path(sys.argv[1]))
print("a library talks")
events.emit("started")
"""


def test_events_go_to_the_file_and_their_mirror_and_libraries_to_standard_error(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", SAY, str(tmp_path)]
    reply = subprocess.run(command, capture_output=True, text=True, check=True)
    assert reply.stdout == (tmp_path / "events.jsonl").read_text()
    assert json.loads(reply.stdout)["event"] == "started"
    assert reply.stderr == "a library talks\n"


def test_on_a_full_disk_the_mirror_still_hears(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    (tmp_path / "events.jsonl").symlink_to("/dev/full")
    command = [sys.executable, "-c", SAY, str(tmp_path)]
    reply = subprocess.run(command, capture_output=True, text=True, check=False)
    assert reply.returncode and "No space left on device" in reply.stderr
    assert json.loads(reply.stdout)["event"] == "started"


def test_a_setting_that_the_framework_does_not_know_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(frameworks.MODULES, "made_up", ".sketch")
    monkeypatch.setenv(frameworks.VARIANT, "")
    values = dict.fromkeys(field.name for field in fields(Trial))
    trial = Trial(**values | {"framework": "made_up", "variant": "v", "settings": {}})
    frameworks.load(trial)
    with pytest.raises(NotImplementedError, match="made_up has no settings search"):
        frameworks.load(replace(trial, settings={"search": True}))

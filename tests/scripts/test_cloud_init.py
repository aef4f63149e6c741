"""The user data of a machine made by hand: valid, and the machine ends whatever happens."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from suite.paths import REPOSITORY

FILE = REPOSITORY / "scripts/cloud/cloud-init.yaml"
STUB = '#!/bin/sh\necho "$(basename "$0") $*" >>"$CALLS"\n'
COMMANDS = (
    *("shutdown", "lspci", "git", "make", "nvidia-smi", "modprobe", "curl", "gpg", "apt-get"),
    *("dpkg", "nvidia-ctk", "systemctl"),
)


def test_the_user_data_follow_the_schema_of_cloud_init() -> None:
    if shutil.which("cloud-init") is None:
        if os.environ.get("DLSUITE_REQUIRE_CLOUD_INIT"):
            pytest.fail("cloud-init is missing")
        pytest.skip("cloud-init is missing: apt-get install cloud-init")
    done = subprocess.run(
        ["cloud-init", "schema", "--config-file", FILE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def machine(
    folder: Path,
    *,
    repository: str = "a.git",
    gpus: str = "0",
    stubs: dict[str, str] | None = None,
) -> tuple[int, list[str]]:
    """Run the script of the user data with stubs; return its exit code and the calls."""
    files = {each["path"]: each for each in yaml.safe_load(FILE.read_text())["write_files"]}
    script = folder / "dlsuite-machine"
    script.write_text(files["/usr/local/sbin/dlsuite-machine"]["content"])
    settings = files["/etc/dlsuite.env"]["content"]
    assert "DLSUITE_GPUS=all\n" in settings
    settings += f"DLSUITE_REPOSITORY={repository}\nDLSUITE_GPUS={gpus}\n"
    (folder / "settings").write_text(settings)
    programs, calls = folder / "bin", folder / "calls"
    target = folder / "dlsuite/.venv/bin"
    for path in (programs, target):
        path.mkdir(parents=True)
    for path in (*(programs / name for name in COMMANDS), target / "dlsuite"):
        path.write_text(STUB + (stubs or {}).get(path.name, ""))
        path.chmod(0o755)
    done = subprocess.run(
        ["bash", script],
        env={
            "PATH": f"{programs}:/usr/bin:/bin",
            "CALLS": str(calls),
            "DLSUITE_SETTINGS": str(folder / "settings"),
            "DLSUITE_FOLDER": str(folder / "dlsuite"),
            "APT_SOURCES": str(folder),
        },
        capture_output=True,
        check=False,
    )
    return done.returncode, calls.read_text().splitlines()


def test_a_machine_without_a_gpu_runs_and_powers_itself_off(tmp_path: Path) -> None:
    code, calls = machine(tmp_path)
    assert code == 0
    assert calls == [
        "shutdown -P +120",
        "make .venv/.ready",
        "dlsuite doctor",
        "dlsuite run quick --gpus 0 --engine docker",
        "shutdown -P +1",
    ]


@pytest.mark.parametrize(
    ("gpus", "stubs", "last"),
    [
        ("0", {"make": "exit 2"}, "make .venv/.ready"),
        ("0", {"dlsuite": "exit 7"}, "dlsuite run quick --gpus 0 --engine docker"),
        ("all", {}, "lspci "),  # it has none, and must have one
        ("all", {"lspci": "echo NVIDIA", "nvidia-smi": "exit 9"}, "nvidia-smi "),
        (
            "all",
            {"lspci": "echo NVIDIA", "dlsuite": "exit 7"},
            "dlsuite run quick --gpus all --engine docker",
        ),
    ],
)
def test_a_machine_that_fails_powers_itself_off_too(
    gpus: str, stubs: dict[str, str], last: str, tmp_path: Path
) -> None:
    code, calls = machine(tmp_path, gpus=gpus, stubs=stubs)
    assert code != 0
    assert (calls[0], calls[-2:]) == ("shutdown -P +120", [last, "shutdown -P +1"])


def test_without_a_repository_the_machine_ends(tmp_path: Path) -> None:
    code, calls = machine(tmp_path, repository="")
    assert code != 0 and calls == ["shutdown -P +120", "shutdown -P +1"]

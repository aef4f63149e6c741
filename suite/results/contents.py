"""The names of the files that dlsuite writes into the folder of a run."""

from __future__ import annotations

from fnmatch import fnmatch

from suite.results import certificate, roofline, store

WHOLE = "worker/"  # a folder with folders, whose digest is in the plan
# Other files may lie beside them, such as the user's notes, but not in SHA256SUMS.
FILES = (
    store.PLAN,
    "plan.yaml",  # before version 0.2
    roofline.NAME,
    roofline.OLD_NAME,
    store.LADDER,
    store.RECORDS,
    "report.html",
    f"{certificate.FOLDER}/*.json",
    "locks/*.txt",
    "inputs/*.json",
    "weights/*.safetensors",
    "starts/*.json",
    "starts/*.json.sig",
    "cloud/task.yaml",
    "cloud/offer.json",
    "cloud/events.jsonl",
    "cloud/provision.log",
    "logs/*.log",
    "logs/*.events.jsonl",
    "logs/*.telemetry.jsonl",
    "logs/*.loadgen.txt",
    "logs/*.predictions.npy",
)


def of_run(name: str) -> bool:
    """Whether dlsuite writes a file of this name, a path in the folder of a run."""
    depth = name.count("/")
    known = (fnmatch(name, each) and each.count("/") == depth for each in FILES)
    return name.startswith(WHOLE) or any(known)

"""Records of older schema versions, converted to the current one."""

from __future__ import annotations

from typing import Any

from suite.results.blocks import COLUMNS
from suite.results.record import SCHEMA_VERSION

UPGRADABLE = (6, 7, 8, 9, 10, 11)
WORKLOAD = ("model", "dataset", "mode", "batch_size", "precision", "input", "optimizer")


def upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a record of versions 6 to 11, converted to the current version.

    Raise KeyError where a value of that version is missing.
    """
    version = values["schema_version"]
    newer = values if version >= 8 else _version_8(values)
    if version < 9:
        columns = {name: [block.get(name) for block in newer["blocks"]] for name in COLUMNS}
        newer = {**newer, "blocks": columns}
    if version < 12:  # disturbances were not measured
        unknown = [None] * len(newer["blocks"].get("warmup", ()))
        added = dict.fromkeys(("waited_s", "others_s", "stolen_s"), unknown)
        disturbed = {"disturbed": [False] * len(unknown)}
        newer = {**newer, "blocks": {**newer["blocks"], **added, **disturbed}}
    device = newer["device"]
    if version < 10:
        device = device.partition(":")[0]  # its number was always 0
    return {**newer, "schema_version": SCHEMA_VERSION, "device": device}


def _version_8(values: dict[str, Any]) -> dict[str, Any]:
    workload = {name: values[name] for name in WORKLOAD}
    kept = {name: value for name, value in values.items() if name not in WORKLOAD}
    runtime, interleaved = kept.pop("conditions"), kept.pop("turns")
    measure = dict(kept["measure"])
    measure["interleaved_block_s"] = measure.pop("turn_s")
    epochs = {"epochs": 1 if kept.get("epochs") else 0}  # not recorded before version 8
    return {
        **kept,
        "runtime": runtime,
        "interleaved": interleaved,
        "measure": measure,
        "workload": workload | epochs,
    }

"""The GPUs of a worker: parses the option, and translates it for engines and processes."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any

from suite.errors import EngineError, UsageError

CAPABILITIES = [["gpu", "compute", "utility"]]  # compute: CUDA; utility: nvidia-smi and NVML
VARIABLE = "CUDA_VISIBLE_DEVICES"
CDI_KIND = "nvidia.com/gpu"
INDEX = re.compile(r"\d+(:\d+)?")  # of a board, or of a MIG slice on its board
CDI_INDEX = re.compile(r"(?:gpu|mig)?(\d+)(?::(\d+))?")  # gpu0 and mig0:1 in one of CDI's namings


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """A number of GPUs (-1: all), or specific ones by index or UUID."""

    count: int | None = None
    ids: tuple[str, ...] = ()


def parse(text: str) -> Gpus | None:
    """`0` (none), `2`, `all`, or ids: `device=0`, `0,2`, `0:1` (MIG), `GPU-1b2c...,MIG-...`."""
    words = tuple(text.removeprefix("device=").split(","))
    if not all(words):
        raise UsageError(
            f"--gpus {text!r} names no GPU", hint="--gpus 0, 2, all, device=0 or 0,2 or UUIDs"
        )
    if text == "all":
        return Gpus(count=-1)
    if text.isdigit():
        return Gpus(count=int(text)) if int(text) else None
    if not all(INDEX.fullmatch(word) or word.startswith(("GPU-", "MIG-")) for word in words):
        raise UsageError(
            f"--gpus {text!r} is not a number, an index or a UUID",
            hint="nvidia-smi -L lists the GPUs; --gpus all uses all",
        )
    return Gpus(ids=words)


def requests(gpus: Gpus, info: dict[str, Any]) -> list[dict[str, Any]]:
    """The device requests for `gpus` that an engine may grant, the likeliest first.

    By CDI if the engine lists CDI devices (Docker 28.2 and later). Else by driver, and where that
    is refused by CDI, if the engine knows CDI (Docker 25 and later). Raise EngineError where CDI
    does not list one of them.
    """
    if devices := _cdi_devices(info):
        return [_by_cdi(gpus, devices)]
    selection = {"device_ids": list(gpus.ids)} if gpus.ids else {"count": gpus.count}
    by_driver = {"driver": "", "capabilities": CAPABILITIES, **selection}
    return [by_driver, *([_by_cdi_unlisted(gpus)] if info.get("CDISpecDirs") else [])]


def _by_cdi_unlisted(gpus: Gpus) -> dict[str, Any]:
    """The request by the names that NVIDIA's toolkit gives: numbers, whole UUIDs, and `all`."""
    numbers = map(str, range(max(0, gpus.count or 0)))
    names = list(gpus.ids) or list(numbers) or ["all"]
    return {"driver": "cdi", "device_ids": [f"{CDI_KIND}={name}" for name in names]}


def _by_cdi(gpus: Gpus, devices: list[str]) -> dict[str, Any]:
    """The request by the names that the engine lists; EngineError where one is not among them."""
    if gpus.ids:
        chosen = [_cdi_name(gpu_id, devices) for gpu_id in gpus.ids]
    elif gpus.count == -1:
        chosen = ["all"] if "all" in devices else _counted(devices)
    else:
        # WSL2 has only "all": its GPUs cannot be divided.
        chosen = _counted(devices)[: gpus.count] or ["all"]
    return {"driver": "cdi", "device_ids": [f"{CDI_KIND}={name}" for name in chosen]}


def _cdi_name(gpu_id: str, devices: list[str]) -> str:
    """CDI's name of a GPU with this index or the beginning of its UUID."""
    if INDEX.fullmatch(gpu_id):
        names = (gpu_id, f"gpu{gpu_id}", f"mig{gpu_id}")
        found = [name for name in names if name in devices]
        if not found and not any(map(CDI_INDEX.fullmatch, devices)) and gpu_id.isdigit():
            found = _counted(devices)[int(gpu_id) :]
    else:
        found = [name for name in devices if name.startswith(gpu_id)]
    if not found:
        listed = ", ".join(devices)
        raise EngineError(
            f"--gpus {gpu_id}: the engine's CDI devices {CDI_KIND}= are: {listed}",
            hint="--gpus all" if devices == ["all"] else "nvidia-ctk cdi list shows them",
        )
    return found[0]


def _counted(devices: list[str]) -> list[str]:
    """One name of each GPU, in the order of their numbers."""
    numbered = [name for name in devices if CDI_INDEX.fullmatch(name)]
    return numbered or [name for name in devices if name.startswith(("GPU-", "MIG-"))]


def visible(
    gpus: Gpus | None, present: list[dict[str, Any]], problem: str | None = None
) -> list[dict[str, Any]]:
    """The GPUs (worker/host.py) that a process may use; EngineError if one is missing.

    A number of GPUs, or all, are those that CUDA_VISIBLE_DEVICES leaves: on a shared machine, the
    others are somebody else's. `problem`: why nvidia-smi did not report all.
    """
    if gpus is None:
        return []
    if gpus.ids:
        matches = {gpu_id: _matching(gpu_id, present) for gpu_id in gpus.ids}
        selected = [gpu for found in matches.values() for gpu in found]
        missing = [gpu_id for gpu_id, found in matches.items() if not found]
    else:
        left = _left(present)
        selected = left if gpus.count == -1 else left[: gpus.count]
        wanted = "all" if gpus.count == -1 else str(gpus.count)
        missing = [wanted] if len(selected) < max(1, gpus.count or 0) else []
    if missing:
        names = ", ".join(f"{n} {gpu['name']}" for n, gpu in enumerate(present)) or "none"
        reason = f" ({problem})" if problem else ""
        if not gpus.ids and VARIABLE in os.environ:
            reason += f", and {VARIABLE}={os.environ[VARIABLE]} leaves {len(selected)} of them"
        raise EngineError(
            f"--gpus {','.join(missing)}: the GPUs that nvidia-smi shows here are: {names}{reason}",
            hint="nvidia-smi -L lists them; --gpus 0 uses none",
        )
    return selected


def _left(present: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order; CUDA ignores all after a wrong name.

    A number is taken as nvidia-smi's, as batch systems do.
    """
    names = os.environ.get(VARIABLE)
    if names is None:
        return present
    found: list[dict[str, Any]] = []
    for name in map(str.strip, names.split(",")):
        matching = _matching(name, present)[:1] if name else []
        if not matching:
            break
        found += [gpu for gpu in matching if gpu not in found]
    return found


def _matching(gpu_id: str, present: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The GPUs with this index, or whose UUID starts with this text."""
    if gpu_id.isdigit():
        return present[int(gpu_id) : int(gpu_id) + 1]
    if ":" in gpu_id:
        return [gpu for gpu in present if gpu.get("slice") == gpu_id]
    return [gpu for gpu in present if gpu["uuid"].startswith(gpu_id)]


def gives_gpus(info: dict[str, Any]) -> bool | None:
    """Whether the engine reports GPUs: by CDI devices or by NVIDIA's runtime; None: unknown.

    An engine that knows CDI and lists no devices shows it only by a container with a GPU.
    """
    if _cdi_devices(info) or "nvidia" in (info.get("Runtimes") or {}):
        return True
    return None if info.get("CDISpecDirs") and "DiscoveredDevices" not in info else False


def _cdi_devices(info: dict[str, Any]) -> list[str]:
    """The names of NVIDIA's CDI devices, those with numbers first and in their order."""
    found = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or []]
    prefix = f"{CDI_KIND}="
    names = {device.removeprefix(prefix) for device in found if device.startswith(prefix)}
    return sorted(names, key=_cdi_order)


def _cdi_order(name: str) -> tuple[bool, int, int, str]:
    number = CDI_INDEX.fullmatch(name)
    return (
        number is None,
        int(number[1]) if number else 0,
        int(number[2] or 0) if number else 0,
        name,
    )

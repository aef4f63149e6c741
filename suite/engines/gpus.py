"""The GPUs of a worker: parses the option, and translates it for engines and processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.errors import EngineError, UsageError

CAPABILITIES = [["gpu", "compute", "utility"]]  # compute: CUDA; utility: nvidia-smi and NVML
CDI_KIND = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """A number of GPUs (-1: all), or specific ones by index or UUID."""

    count: int | None = None
    ids: tuple[str, ...] = ()


def parse(text: str) -> Gpus | None:
    """`0` (none), `2`, `all`, or ids: `device=0`, `0,2`, `GPU-1b2c...,GPU-...`."""
    words = tuple(text.removeprefix("device=").split(","))
    if not all(words):
        raise UsageError(
            f"--gpus {text!r} names no GPU", hint="--gpus 0, 2, all, device=0 or 0,2 or UUIDs"
        )
    if text == "all":
        return Gpus(count=-1)
    if text.isdigit():
        return Gpus(count=int(text)) if int(text) else None
    if not all(word.isdigit() or word.startswith(("GPU-", "MIG-")) for word in words):
        raise UsageError(
            f"--gpus {text!r} is not a number, an index or a UUID",
            hint="nvidia-smi -L lists the GPUs; --gpus all uses all",
        )
    return Gpus(ids=words)


def request(gpus: Gpus, info: dict[str, Any]) -> dict[str, Any]:
    """The device request for `gpus`: by CDI if the engine lists CDI devices, else by driver."""
    devices = _cdi_devices(info)
    if not devices:
        selection = {"device_ids": list(gpus.ids)} if gpus.ids else {"count": gpus.count}
        return {"driver": "", "capabilities": CAPABILITIES, **selection}
    if gpus.ids:
        names = [f"{CDI_KIND}={gpu_id}" for gpu_id in gpus.ids]
    elif gpus.count == -1:
        names = [f"{CDI_KIND}=all"]
    else:
        numbered = [device for device in devices if device.rpartition("=")[2].isdigit()]
        names = numbered[: gpus.count]
    return {"driver": "cdi", "device_ids": names}


def visible(
    gpus: Gpus | None, present: list[dict[str, str]], problem: str | None = None
) -> list[dict[str, str]]:
    """The GPUs (worker/host.py) that a process may use; EngineError if one is missing.

    `problem`: why nvidia-smi did not report all.
    """
    if gpus is None:
        return []
    if gpus.ids:
        matches = {gpu_id: _matching(gpu_id, present) for gpu_id in gpus.ids}
        selected = [gpu for found in matches.values() for gpu in found]
        missing = [gpu_id for gpu_id, found in matches.items() if not found]
    else:
        selected = present if gpus.count == -1 else present[: gpus.count]
        missing = [str(gpus.count)] if len(selected) < max(1, gpus.count or 0) else []
    if missing:
        names = ", ".join(f"{n} {gpu['name']}" for n, gpu in enumerate(present)) or "none"
        reason = f" ({problem})" if problem else ""
        raise EngineError(
            f"--gpus {','.join(missing)}: the GPUs that nvidia-smi shows here are: {names}{reason}",
            hint="nvidia-smi -L lists them; --gpus 0 uses none",
        )
    return selected


def _matching(gpu_id: str, present: list[dict[str, str]]) -> list[dict[str, str]]:
    """The GPUs with this index, or whose UUID starts with this text."""
    if gpu_id.isdigit():
        return present[int(gpu_id) : int(gpu_id) + 1]
    return [gpu for gpu in present if gpu["uuid"].startswith(gpu_id)]


def gives_gpus(info: dict[str, Any]) -> bool:
    """Whether the engine reports GPUs: by CDI devices or by NVIDIA's runtime.

    An engine may have GPUs without reporting them; only a container with a GPU shows it.
    """
    return bool(_cdi_devices(info)) or "nvidia" in (info.get("Runtimes") or {})


def _cdi_devices(info: dict[str, Any]) -> list[str]:
    devices = [str(device.get("ID", "")) for device in info.get("DiscoveredDevices") or []]
    return sorted(device for device in devices if device.startswith(f"{CDI_KIND}="))

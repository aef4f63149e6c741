"""Which GPUs a worker gets: what the user asked for, as engines and processes want to be asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.errors import EngineError, UsageError

CAPABILITIES = [["gpu", "compute", "utility"]]  # compute: CUDA; utility: nvidia-smi and NVML
CDI_KIND = "nvidia.com/gpu"


@dataclass(frozen=True, kw_only=True)
class Gpus:
    """A number of GPUs (-1: all there are) or just these, by index or UUID."""

    count: int | None = None
    ids: tuple[str, ...] = ()


def parse(text: str) -> Gpus | None:
    """`0` (none), `2`, `all`, or ids: `device=0`, `0,2`, `GPU-1b2c...,GPU-...`."""
    words = tuple(text.removeprefix("device=").split(","))
    if not all(words):
        raise UsageError(
            f"--gpus {text!r} names no GPUs", hint="--gpus 0, 2, all, device=0 or 0,2 or UUIDs"
        )
    if text == "all":
        return Gpus(count=-1)
    if text.isdigit():
        return Gpus(count=int(text)) if int(text) else None
    if not all(word.isdigit() or word.startswith(("GPU-", "MIG-")) for word in words):
        raise UsageError(
            f"--gpus {text!r} is no number, no index and no UUID",
            hint="nvidia-smi -L names the GPUs; --gpus all takes every one",
        )
    return Gpus(ids=words)


def request(gpus: Gpus, info: dict[str, Any]) -> dict[str, Any]:
    """The device request for `gpus`: by CDI where the engine knows such devices, else by driver."""
    cdi = _cdi(info)
    if not cdi:
        chosen = {"device_ids": list(gpus.ids)} if gpus.ids else {"count": gpus.count}
        return {"driver": "", "capabilities": CAPABILITIES, **chosen}
    if gpus.ids:
        names = [f"{CDI_KIND}={each}" for each in gpus.ids]
    elif gpus.count == -1:
        names = [f"{CDI_KIND}=all"]
    else:
        numbered = [each for each in cdi if each.rpartition("=")[2].isdigit()]
        names = numbered[: gpus.count]
    return {"driver": "cdi", "device_ids": names}


def visible(gpus: Gpus | None, there: list[dict[str, str]]) -> list[dict[str, str]]:
    """Those of the machine's GPUs (worker/host.py) that a process may see.

    Raise EngineError where it has them not.
    """
    if gpus is None:
        return []
    if gpus.ids:
        found = {wanted: _named(wanted, there) for wanted in gpus.ids}
        chosen = [gpu for each in found.values() for gpu in each]
        missing = [wanted for wanted, each in found.items() if not each]
    else:
        chosen = there if gpus.count == -1 else there[: gpus.count]
        missing = [str(gpus.count)] if len(chosen) < max(1, gpus.count or 0) else []
    if missing:
        names = ", ".join(f"{n} {gpu['name']}" for n, gpu in enumerate(there)) or "none"
        raise EngineError(
            f"--gpus {','.join(missing)}: the GPUs that nvidia-smi shows here are: {names}",
            hint="nvidia-smi -L names them; --gpus 0 takes none",
        )
    return chosen


def _named(wanted: str, there: list[dict[str, str]]) -> list[dict[str, str]]:
    if wanted.isdigit():
        return there[int(wanted) : int(wanted) + 1]
    return [gpu for gpu in there if gpu["uuid"].startswith(wanted)]


def gives_gpus(info: dict[str, Any]) -> bool:
    """Whether the engine says so: by its CDI devices or by NVIDIA's runtime.

    An engine may give GPUs and not say so; that it does is sure only once a container has one.
    """
    return bool(_cdi(info)) or "nvidia" in (info.get("Runtimes") or {})


def _cdi(info: dict[str, Any]) -> list[str]:
    devices = [str(each.get("ID", "")) for each in info.get("DiscoveredDevices") or []]
    return sorted(each for each in devices if each.startswith(f"{CDI_KIND}="))

"""The TPU chips of this machine, and the variables by which a process uses some of them.

From JAX's own search for them (jax/_src/hardware_utils.py) and libtpu's variables. Nothing here has
run on a TPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from suite.errors import EngineError
from suite.manifests.devices import KINDS

GOOGLE = "0x1ae0"  # the vendor of a chip among the PCI devices
PCI = Path("/sys/bus/pci/devices")


def chips(pci: Path | None = None) -> list[str]:
    """The PCI addresses of the chips, in order."""
    return sorted(
        path.parent.name for path in (pci or PCI).glob("*/vendor") if _read(path) == GOOGLE
    )


def chosen(count: int, pci: Path | None = None) -> list[str]:
    """The first chips; EngineError where there are fewer."""
    found = chips(pci)
    if len(found) < count:
        raise EngineError(
            f"--tpus {count}: this machine has {len(found)} TPU chips",
            hint="ls /sys/bus/pci/devices; a TPU VM has chips of the vendor 0x1ae0",
        )
    return found[:count]


def visible(used: Sequence[str]) -> dict[str, str]:
    """The variables of a process that uses these chips, the first ones of the machine."""
    name = KINDS["tpu"].visible
    if not used or name is None:
        return {}
    return {
        name: ",".join(map(str, range(len(used)))),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": f"{len(used)},1,1",
        "TPU_PROCESS_BOUNDS": "1,1,1",
    }


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return None

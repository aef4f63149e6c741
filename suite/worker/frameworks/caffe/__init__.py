"""What Caffe and its BLAS read when they are loaded."""

import os
from pathlib import Path

# Caffe logs each layer and each blob of a network.
os.environ.setdefault("GLOG_minloglevel", "2")


def _has_avx2() -> bool:
    lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    return any("avx2" in line.split() for line in lines if line.startswith("flags"))


# Debian bullseye's OpenBLAS, 0.3.13, does not know newer processors, and takes kernels without AVX
# for them.
if _has_avx2():
    os.environ.setdefault("OPENBLAS_CORETYPE", "Haswell")

"""Theano's flags, which it reads when it is imported."""

import os
import tempfile
from pathlib import Path

import scipy.linalg  # it loads the BLAS, which Theano's programs then find

# Theano compiles a program in C++ for each operation. Each run compiles anew, so that the time of
# compilation means the same; by default Theano keeps what it has compiled in the home.
_folder = Path(tempfile.mkdtemp(prefix="theano-"))
# SciPy's OpenBLAS has the usual names of functions, and the linker finds it under the usual name.
_blas = next((Path(scipy.__file__).parent.parent / "scipy.libs").glob("libopenblasp*.so"))
(_folder / "libopenblas.so").symlink_to(_blas)
os.environ["THEANO_FLAGS"] = (
    f"base_compiledir={_folder},blas.ldflags=-L{_folder} -lopenblas,device=cpu,openmp=False"
)

"""PyTensor's flags, which it reads when it is imported."""

import os
import tempfile

# Each run compiles anew, in a container or not, so that the time of compilation means the same; by
# default PyTensor keeps what it has compiled in the home. Numba needs no C++ compiler, and PyTensor
# then searches for none.
os.environ["PYTENSOR_FLAGS"] = f"cxx=,base_compiledir={tempfile.mkdtemp(prefix='pytensor-')}"

"""One module for each framework, with the same names in the same order.

`LAYOUT`, `version()`, `device(trial)` and `Session` (see `protocol.Session`).
"""

MODULES = {
    "pytorch": ".frameworks.pytorch",
    "tensorflow": ".frameworks.tensorflow",
    "jax": ".frameworks.jax",
    "mxnet": ".frameworks.mxnet",
}

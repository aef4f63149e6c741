"""oneDNN in C++: the sources of its worker (suite/worker/native)."""

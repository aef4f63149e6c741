"""The self-test: planted faults, and the proofs that must find each."""

"""Verification of a run's folder: what can be computed again is compared with what it says."""

"""Flux, which is a package of Julia: Julia runs inside the worker's process."""

"""Engines run workers: each worker has its own folder, is watched, and has a deadline."""

"""Engines run workers: each in a folder of its own, watched, with a deadline."""

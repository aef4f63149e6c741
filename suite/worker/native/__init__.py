"""The worker in C++, for frameworks that have a library and no Python.

docs/explanation/native.md describes it.
"""

"""Readers of users' files, each run by the Python of a framework's environment.

    python -m readers.in_pytorch REQUEST.json

This folder is copied to where that Python finds it as the package `readers`, so it imports nothing
of dlsuite. A reader writes the model as a graph of nodes: layers in the form of trial.json, and
`pad`, a padding with zeros that a later step joins with the layer after it.
"""

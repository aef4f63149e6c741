"""The worker: the only code that runs in the same process as a framework.

It imports the standard library, numpy and its own framework, and needs only Python 3.9.
"""

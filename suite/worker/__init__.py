"""The worker: the only code that runs beside a framework.

It imports the standard library, numpy and its own framework, and needs only Python 3.9.
"""

"""The worker: the only code that runs beside a framework.

It uses the standard library, numpy and its own framework, and nothing newer than Python 3.9.
"""

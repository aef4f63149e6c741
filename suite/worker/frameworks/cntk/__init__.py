"""CNTK, whose packages are for Python 3.6: it runs in a process of that Python (`python36`)."""

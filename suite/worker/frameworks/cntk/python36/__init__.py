"""What runs in CNTK's process. The syntax and the library are those of Python 3.6."""

"""dlsuite: the same deep-learning work in several frameworks, proven and measured."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("dlsuite")
except PackageNotFoundError:  # a source tree that is not installed
    __version__ = "unknown"

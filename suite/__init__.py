"""dlsuite: the same deep-learning work in every framework, proven to be the same, and measured."""

__version__ = "0.1.0"

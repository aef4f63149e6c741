"""Reports: records as tables and JSON, with warnings and comparisons."""

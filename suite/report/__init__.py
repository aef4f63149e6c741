"""Reports: from records to tables and JSON, with warnings and comparisons."""

"""A module for each format of raw data, and the shared format of prepared datasets."""

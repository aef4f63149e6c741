"""The report of a run as one HTML page that loads nothing."""

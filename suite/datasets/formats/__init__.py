"""One module for each form in which a dataset comes, and the one in which all are prepared."""

"""Models of the user: a file becomes layers, which are proven to be equal to it."""

"""Methods with a constant or a formula for which no source could be read. The docstring of each says which, and what
stands in its place."""

"""Tables and figures, in one style."""

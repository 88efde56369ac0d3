"""`diver judge`: a language model ranks the answers of several models to the same problems, blind to which model wrote
which."""

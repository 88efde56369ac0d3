"""`diver judge`: a language model ranks the answers of several models to the same problems, without knowing whose is whose."""

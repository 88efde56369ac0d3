"""Problems: sources, prompt templates, and synthetic tasks."""

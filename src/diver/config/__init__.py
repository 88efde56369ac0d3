"""Every settings class, and the recipe that they make together."""

"""The settings of every package, and the recipe that combines them."""

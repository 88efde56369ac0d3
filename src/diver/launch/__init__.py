"""`diver verl`: from a recipe to the verl command that is equivalent to it, and its problems in verl's layout.

`keys.py` says what becomes of every key of a recipe.
"""

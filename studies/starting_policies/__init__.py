"""Starting policies of the mazes, by cells too, and of graph colouring, made by `scripts/starting_policy.py`.

`diver` finds them by the entry points "diver.policies" of this distribution: name -> folder.
"""

from pathlib import Path

MAZE = Path(__file__).parent / "maze"
GRAPH_COLORING = Path(__file__).parent / "graph_coloring"
MAZE_CELLS = Path(__file__).parent / "maze_cells"

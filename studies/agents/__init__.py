"""Exploration methods on trajectories: the maze, cell by cell. study.toml is the protocol."""

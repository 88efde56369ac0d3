"""Files that survive a kill: JSON Lines, the run folder; and the seeds of random streams."""

"""`diver browse`: the page of report for rollouts of any origin, read file by file within a budget."""

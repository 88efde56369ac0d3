"""Looking at responses: read anyone's rollouts, measure and grade them, and write the page of a run or of a dump."""

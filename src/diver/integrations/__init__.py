"""Other trainers: TRL, verl, and an adapter in one file for each of the others."""

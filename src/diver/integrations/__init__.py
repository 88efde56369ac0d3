"""Other trainers: TRL and verl."""

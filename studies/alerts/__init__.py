"""How often the alerts of a run fire on healthy runs and on runs that are broken on purpose. study.toml is the
protocol."""

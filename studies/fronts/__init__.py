"""Does any method beat plain training if interpolated weights and temperature are free? study.toml is the protocol."""

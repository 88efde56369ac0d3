"""Does any method beat plain training once weights between and temperature are free? study.toml is the protocol."""

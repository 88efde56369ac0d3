"""Does replay of verified solutions beat a tuned baseline? study.toml is the protocol."""

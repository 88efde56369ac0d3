"""The same `Method` on other people's engines."""

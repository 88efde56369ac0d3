"""Colours of pictures."""

from __future__ import annotations

COLOURS = ("#2456c5", "#c2571a", "#1f8a5b", "#8a4fbf", "#b3232f", "#5c6470", "#0e8fa8", "#a8862b", "#d0569a", "#1b1f24")

"""Text after the answer: what a diversity reward pays for it, and what the repairs change."""

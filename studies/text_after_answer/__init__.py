"""Text after the answer: how it raises a diversity reward, and what the repairs change."""

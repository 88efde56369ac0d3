"""From prompts to responses, behind one interface."""

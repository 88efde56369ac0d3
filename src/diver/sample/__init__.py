"""From prompts to responses, behind one interface: `diver.sample.base.Generator`."""

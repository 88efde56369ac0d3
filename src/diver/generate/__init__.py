"""From prompts to responses, behind one interface: `diver.generate.base.Generator`."""

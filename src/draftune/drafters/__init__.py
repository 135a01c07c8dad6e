"""Guesses are made: contexts, recent-token models and heads, the presets made of them, and one file per odd one."""

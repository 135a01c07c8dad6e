"""Functions that return whole configs, one file a recipe."""

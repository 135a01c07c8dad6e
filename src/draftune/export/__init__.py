"""A drafter packs to leave: the bundle, and one file for each engine."""

"""A target and its drafters learn: joint or one after the other, on gold rows, safe from kills."""

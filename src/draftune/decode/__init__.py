"""Guesses are judged and become text: noise, probabilities, rules, the draft-verify loop, stops and streams."""

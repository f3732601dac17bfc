"""Weights that mast does not carry with it: what they are, getting them, and reading them safely."""

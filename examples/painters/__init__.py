"""Painters of the example style pictures; run ``make_styles.py``."""

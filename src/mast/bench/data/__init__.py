"""The data set: which photos, styles and masks belong together."""

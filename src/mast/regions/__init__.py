"""Regions of a photo: found by segmenters, clicked, read from whatever people have, edited, shown."""

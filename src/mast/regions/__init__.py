"""Regions from what people have: `MASK=STYLE@0.7` on a command line, or a colour-coded map."""

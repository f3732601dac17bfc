"""What the pictures are worth: scores, tables, sweeps, plots."""

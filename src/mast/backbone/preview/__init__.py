"""The embedded model: small enough to ship, so that everyone can see MAST work without a download."""

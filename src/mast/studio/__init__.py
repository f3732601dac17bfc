"""The studio: a web page that paints regions, the server behind it, and the processes that do the work."""

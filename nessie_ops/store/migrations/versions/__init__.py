"""One file for each format; a released one never changes."""

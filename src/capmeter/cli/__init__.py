"""One file per command: parse flags, print, exit."""

"""The commands that the recipes add to `capmeter`."""

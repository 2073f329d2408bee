"""A table of what the world encoder sees, for metrics that map a picture's vector linearly."""

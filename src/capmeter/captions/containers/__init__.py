"""Containers: how a file becomes records with their places. What the records mean, `layouts` and `fields` know."""

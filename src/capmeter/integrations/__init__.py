"""Thin adapters: the shapes other people's code expects."""

"""Thin adapters to the interfaces that other code expects."""

"""Metrics of events in time, and of anything else that has a place: matched by overlap, then by caption."""

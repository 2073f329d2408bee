"""Metrics of audio captioning: penalties for captions that are not fluent."""

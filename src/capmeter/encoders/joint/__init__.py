"""Encoders of images and sentences."""

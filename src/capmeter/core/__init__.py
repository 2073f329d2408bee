"""What everything else builds on: named values, registry, settings, errors, assets, caches, files."""

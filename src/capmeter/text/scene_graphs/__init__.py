"""Scene graphs of captions: parsers, rules, matching."""

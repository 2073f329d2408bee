"""Training of heads that say which words are wrong and which regions are mentioned (InfoMetIC's shape)."""

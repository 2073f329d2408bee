"""What several recipes share: the training loop, corpora, exclusions, model selection."""

"""Judges of papers: language models that answer questions about captions, each with its prompts and its formula."""

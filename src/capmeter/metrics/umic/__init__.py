"""UMIC: the unreferenced metric, and its baseline without fine-tuning."""

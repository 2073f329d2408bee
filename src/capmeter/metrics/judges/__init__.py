"""Language models as judges: prompt templates, one client for servers and local models, answers kept on disk."""

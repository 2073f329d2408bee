"""WEmbSim (Sharif et al. 2020): mean word vectors."""

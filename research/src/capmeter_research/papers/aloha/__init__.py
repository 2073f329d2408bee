"""ALOHa (Petryk et al. 2024): the least supported object of a caption."""

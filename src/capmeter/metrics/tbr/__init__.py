"""TBR (Yi et al. 2020): references combined before they are compared, over contextual vectors or plain words."""

"""TBR (Yi et al. 2020): references are combined before comparison, with contextual vectors or plain words."""

"""The world encoder: features of pictures and regions, trained on synthetic scenes alone."""

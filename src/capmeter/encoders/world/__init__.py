"""The world encoder: features of pictures and regions, trained on the made world alone."""

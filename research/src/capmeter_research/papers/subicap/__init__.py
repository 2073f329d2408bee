"""The captioner: pictures' regions to captions, by subwords and geometric attention (SubICap, Sharif 2019)."""

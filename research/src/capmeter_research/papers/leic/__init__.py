"""LEIC (Cui et al. 2018): a critic trained to tell human from machine captions, given the image and a reference."""

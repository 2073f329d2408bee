"""A small CLIP trained from scratch on the made world, in the layout that `clipscore(encoder=FOLDER)` reads."""

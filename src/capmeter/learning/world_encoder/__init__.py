"""The training of the world encoder on the scenes of the made world."""

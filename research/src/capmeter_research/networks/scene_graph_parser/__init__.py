"""Training and evaluation of the scene-graph parser (`capmeter train factual`)."""

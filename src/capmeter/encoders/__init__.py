"""Neural encoders behind one small interface."""

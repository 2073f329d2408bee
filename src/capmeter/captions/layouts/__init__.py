"""Layouts: how records of a file become rows of captions; the only place where a form is recognised."""

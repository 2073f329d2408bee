"""SMURF (Feinglass and Yang 2021): SPARCS, MIMA, SPURTS, their fusion, and whole systems."""

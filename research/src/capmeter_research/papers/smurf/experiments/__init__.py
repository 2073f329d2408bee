"""The experiments of SMURF (Feinglass and Yang 2021)."""

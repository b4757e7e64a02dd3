"""The laboratory: every figure and table of the papers, by name, with their claims checked by a program."""

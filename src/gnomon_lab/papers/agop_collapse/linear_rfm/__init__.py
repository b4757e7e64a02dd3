"""linear-rfm: the recursion in which deep neural collapse can be proved, and the constants of its theorem (4.3)."""

"""What the outputs say of the labels, and how surely."""

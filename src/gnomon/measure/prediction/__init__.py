"""What the outputs say about the labels, and how surely."""

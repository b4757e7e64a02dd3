"""Of the decision, and how far it is to another."""

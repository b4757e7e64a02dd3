"""GrokAlign: Walker et al., arXiv:2506.12284."""

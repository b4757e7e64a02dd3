"""truncation-practice: ordinary gradient descent beside the effective gradient flow, one difference at a time."""

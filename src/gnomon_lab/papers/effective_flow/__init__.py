"""The effective gradient flow: Chen, arXiv:2501.07400."""

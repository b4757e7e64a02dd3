"""general-flow: truncation maps one after the other, on clusters that are not separated (theorem 5.1)."""

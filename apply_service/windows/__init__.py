"""Windows: the regions of a long file that an edit touches, each an edit job of its own, and the splice back."""

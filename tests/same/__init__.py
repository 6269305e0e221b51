"""Whether the merge code still does the same: every answer compared with that of an earlier commit."""

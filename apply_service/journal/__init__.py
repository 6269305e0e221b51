"""All or none of several files: `change_sets` writes and recovers them, `note` is what lies on disk meanwhile."""

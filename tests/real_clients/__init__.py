"""The real client packages, at pinned versions, against a live server: `make test-real-clients`."""

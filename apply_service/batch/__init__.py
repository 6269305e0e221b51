"""Several files in one request: `edits` asks the service for each, `patch` applies one patch to all, `results` judges
what came out, together or one by one."""

"""What can go wrong in the harness itself; an answer that is wrong or refused is a row of the results, not an error.

ApplyError
  DataError      a data set can't be read, or holds no sample
  GitError       git refused, or there is no repository
"""

from __future__ import annotations

from apply_service.errors import ApplyError


class DataError(ApplyError):
    code = "bad_data"


class GitError(ApplyError):
    code = "git_failed"

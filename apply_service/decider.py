"""Old name of what is in `target`."""

from apply_service.target import Candidate as Reading
from apply_service.target import Decided as Decided
from apply_service.target import Decider as Decider
from apply_service.target import Deciding as Deciding
from apply_service.target import TargetInfo as TargetInfo
from apply_service.target import least_by_line as least_by_line

__all__ = ["Decided", "Decider", "Deciding", "Reading", "TargetInfo", "least_by_line"]

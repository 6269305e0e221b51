"""Old name of what is in `types`."""

from apply_service.types import DOUBT as DOUBT
from apply_service.types import is_refused as is_refused

"""Old name of what is in `service` and `ticket`."""

from apply_service.pipeline import Running as Running
from apply_service.service import Run as Run
from apply_service.service import Task as Task
from apply_service.ticket import crash_error as crash_error

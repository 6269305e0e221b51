"""Old name of what is in `pipeline`."""

from apply_service.pipeline import attribute_ops as attribute_ops
from apply_service.pipeline import confident_hunks as confident_hunks
from apply_service.pipeline import origin_spans as origin_spans

"""The generated parts of the page on batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from apply_service.api.answer import BatchAnswer, BatchItemOut
from apply_service.api.schema import BatchFile, BatchRequest
from docs.tables import field_table, named_fields


def request_fields() -> str:
    return "\n".join((field_table(BatchRequest, with_default=True), named_fields("files", BatchFile)))


def answer_fields() -> str:
    return "\n".join((field_table(BatchAnswer), named_fields("items", BatchItemOut)))


BATCH_PARTS: Mapping[str, Callable[[], str]] = {"batch-request": request_fields, "batch-answer": answer_fields}

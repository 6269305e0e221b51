"""What one setting is: its kind, range and words, and how a text becomes a value of it.

`settings` names the settings themselves, the command line and the reference pages are made from the same specs.  Reads
no environment and no file.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field
from typing import Any, get_args, get_origin

from apply_service.errors import SettingsError

ENV_PREFIX = "APPLY_"

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off"})
NONE_WORDS = frozenset({"", "none"})


def setting(
    default: Any,
    text: str,
    *,
    group: str,
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    is_secret: bool = False,
) -> Any:
    """A field of the class of settings: its default, what it means, and what it may be.  `is_secret`: no `repr` shows
    it."""
    metadata = {"help": text, "group": group, "low": low, "high": high, "choices": choices}
    return field(default=default, repr=not is_secret, metadata=metadata)


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """One setting as documentation, argument parser and checker see it."""

    name: str
    kind: type
    """Of the value; of one item where the setting is a list."""
    is_optional: bool
    is_list: bool
    default: object
    help: str
    group: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]

    @classmethod
    def of(cls, item: Field[Any], hint: Any) -> SettingSpec:
        """The spec of a field that `setting` made, with its type as written."""
        kinds = get_args(hint) or (hint,)
        return cls(
            name=item.name,
            kind=kinds[0],
            is_optional=type(None) in kinds,
            is_list=get_origin(hint) is tuple,
            default=item.default,
            help=item.metadata["help"],
            group=item.metadata["group"],
            low=item.metadata["low"],
            high=item.metadata["high"],
            choices=item.metadata["choices"],
        )

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENV_PREFIX + self.name.upper()

    @property
    def default_text(self) -> str:
        """The default as it would be written in the environment."""
        if self.default is None or self.default == ():
            return "none"
        if isinstance(self.default, tuple):
            return ",".join(self.default)
        return str(self.default).lower() if self.kind is bool else str(self.default)

    @property
    def range(self) -> str:
        """The allowed values in words."""
        if self.choices:
            words = (", " if self.is_list else " | ").join(self.choices)
        elif self.kind is bool:
            words = "true | false"
        elif self.low is not None:
            words = f"{_number(self.low)} to {_number(self.high)}"
        else:
            words = "texts, with commas between them" if self.is_list else "text"
        return f"{words}, or none" if self.is_optional or self.is_list else words


def parse_setting(spec: SettingSpec, text: str, *, source: str) -> object:
    """The value that `text`, from the environment or the command line, stands for; checked."""
    value: object = text
    if spec.is_list:
        value = () if text.lower() in NONE_WORDS else tuple(part.strip() for part in text.split(","))
    elif spec.is_optional and text.lower() in NONE_WORDS:
        value = None
    elif spec.kind is bool:
        value = True if text.lower() in TRUE_WORDS else False if text.lower() in FALSE_WORDS else text
    elif spec.kind in (int, float):
        value = _parse_number(spec.kind, text)
    check_setting(spec, value, source=source)
    return value


def check_setting(spec: SettingSpec, value: object, *, source: str) -> None:
    """Raises SettingsError where the setting may not have this value."""
    if not _is_allowed(spec, value):
        raise SettingsError(
            f"Bad value for {spec.name} ({source}): {value!r}; allowed: {spec.range}.",
            value=value,
            limit=spec.range,
            remedy=f"Set {spec.name} within its range.",
        )


def _is_allowed(spec: SettingSpec, value: object) -> bool:
    if spec.is_list:
        return isinstance(value, tuple) and all(
            isinstance(item, spec.kind) and item != "" and (not spec.choices or item in spec.choices) for item in value
        )
    if value is None:
        return spec.is_optional
    if isinstance(value, bool) or spec.kind is bool:
        return isinstance(value, bool) and spec.kind is bool
    if not isinstance(value, (int, float) if spec.kind is float else spec.kind):
        return False
    if spec.choices:
        return value in spec.choices
    if spec.low is None or spec.high is None:
        return value != ""
    return isinstance(value, (int, float)) and spec.low <= value <= spec.high


def _parse_number(kind: type, text: str) -> object:
    try:
        return kind(text)
    except ValueError:
        return text


def _number(value: float | None) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"

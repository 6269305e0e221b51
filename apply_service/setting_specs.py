"""Old name of what is in `settings`."""

from apply_service.settings import SettingSpec as SettingSpec
from apply_service.settings import parse_setting as parse_setting

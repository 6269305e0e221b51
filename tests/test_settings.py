"""Settings: precedence, refusal of unknown keys and bad values, one place of documentation."""

import os
import sys
from pathlib import Path

import pytest

from apply_service.disk.paths import platform_config_path, platform_state_path
from apply_service.errors import SettingsError
from apply_service.settings import (
    Settings,
    is_color_wanted,
    load_settings,
    parse_setting,
    renamed_variables,
    setting_specs,
)

NO_FILE = {"XDG_CONFIG_HOME": "/nowhere", "APPDATA": "/nowhere"}


def write_config(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_defaults_are_loopback_and_embedded() -> None:
    settings = load_settings(environment=NO_FILE)
    assert settings.host == "127.0.0.1"
    assert settings.model == "embedded"
    assert settings.window is None
    assert settings.allow_remote_code is False


def test_precedence_command_line_environment_file_default(tmp_path: Path) -> None:
    config = write_config(tmp_path, "queue_limit = 1\nport = 2\nwindow = 3\n")
    environment = {"APPLY_SERVICE_PORT": "20", "APPLY_SERVICE_WINDOW": "30"}
    settings = load_settings({"window": 300, "port": None}, environment=environment, config=config)
    assert (settings.queue_limit, settings.port, settings.window) == (1, 20, 300)
    assert settings.max_lines == 200_000


def test_config_file_is_named_by_the_environment_or_found_in_its_place(tmp_path: Path) -> None:
    config = write_config(tmp_path, "port = 1234\n")
    assert load_settings(environment=NO_FILE | {"APPLY_SERVICE_CONFIG": str(config)}).port == 1234
    (tmp_path / "apply-service").mkdir()
    config.rename(tmp_path / "apply-service" / "config.toml")
    assert load_settings(environment={"XDG_CONFIG_HOME": str(tmp_path), "APPDATA": str(tmp_path)}).port == 1234


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("on", True), ("TRUE", True), ("no", False), ("0", False)],
)
def test_words_for_booleans(text: str, value: bool) -> None:
    assert load_settings(environment=NO_FILE | {"APPLY_SERVICE_ALLOW_REMOTE_CODE": text}).allow_remote_code is value


def test_none_in_the_environment_unsets_an_optional_setting() -> None:
    assert load_settings(environment=NO_FILE | {"APPLY_SERVICE_WINDOW": "none"}).window is None


def test_a_list_comes_with_commas_or_as_an_array(tmp_path: Path) -> None:
    assert load_settings(environment=NO_FILE).models == ()
    assert load_settings(environment=NO_FILE | {"APPLY_SERVICE_MODELS": "a, b=/m"}).models == ("a", "b=/m")
    assert load_settings(environment=NO_FILE | {"APPLY_SERVICE_MODELS": "none"}).models == ()
    config = write_config(tmp_path, 'models = ["a,b", "c"]\n')
    assert load_settings(environment=NO_FILE, config=config).models == ("a,b", "c")
    assert _error(environment={"APPLY_SERVICE_MODELS": "a,,b"}).value == ("a", "", "b")
    for text in ('models = "a"', "models = [1]"):
        assert "models" in _error(config=write_config(tmp_path, text)).message


def test_models_by_name() -> None:
    settings = Settings(model="/m/big", models=("small=embedded", "other/model", "fast=/m/fast"))
    assert settings.model_sources == {
        "/m/big": "/m/big",
        "small": "embedded",
        "other/model": "other/model",
        "fast": "/m/fast",
        "embedded": "embedded",
    }
    assert next(iter(settings.model_sources)) == "/m/big"
    assert Settings().model_sources == {"embedded": "embedded"}


@pytest.mark.parametrize("models", [("=x",), ("a=1", "a=2"), ("a", "a"), ("embedded=/m",), ("/m/big=/m/other",)])
def test_a_model_name_stands_for_one_model(models: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="models"):
        Settings(model="/m/big", models=models)


def test_unknown_key_in_file_environment_and_command_line(tmp_path: Path) -> None:
    config = write_config(tmp_path, "prot = 1\n")
    for error in (
        _error(config=config),
        _error(environment={"APPLY_SERVICE_PROT": "1"}),
        _error(command_line={"prot": 1}),
    ):
        assert error.value == "prot"
        assert "prot" in error.message
        assert isinstance(error.limit, list)
        assert "port" in error.limit
    assert "environment" in _error(environment={"APPLY_SERVICE_PROT": "1"}).message
    assert str(config) in _error(config=config).message


def test_variables_that_are_no_settings_are_let_through() -> None:
    load_settings(environment=NO_FILE | {"EVAL_DATA": "/data", "PATH": "/bin", "APPLY_MIGRATIONS": "1", "APPLY_": ""})


def test_variables_by_their_old_names(tmp_path: Path) -> None:
    old = NO_FILE | {"APPLY_PORT": "20", "APPLY_WINDOW": "30", "APPLY_MIGRATIONS": "1"}
    settings = load_settings(environment=old | {"APPLY_SERVICE_WINDOW": "300"})
    assert (settings.port, settings.window) == (20, 300)
    assert renamed_variables(old) == {"APPLY_PORT": "APPLY_SERVICE_PORT", "APPLY_WINDOW": "APPLY_SERVICE_WINDOW"}
    config = write_config(tmp_path, "port = 1234\n")
    assert load_settings(environment={"APPLY_CONFIG": str(config)}).port == 1234


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("PORT", "65536"),
        ("PORT", "-1"),
        ("PORT", "http"),
        ("PORT", "1.5"),
        ("PORT", "none"),
        ("DEFAULT_TIMEOUT_S", "nan"),
        ("DEFAULT_TIMEOUT_S", "0"),
        ("LOG_LEVEL", "loud"),
        ("ALLOW_REMOTE_CODE", "maybe"),
        ("WINDOW", "0"),
        ("MODEL", ""),
    ],
)
def test_bad_value_names_key_value_and_range(key: str, text: str) -> None:
    error = _error(environment={f"APPLY_SERVICE_{key}": text})
    assert key.lower() in error.message
    assert f"APPLY_SERVICE_{key}" in error.message
    spec = next(spec for spec in setting_specs() if spec.name == key.lower())
    assert error.limit == spec.range
    assert text in error.message
    assert error.value is not None


@pytest.mark.parametrize("line", ['port = "80"', "port = true", "log_level = 3", "model = 1", "window = 2.0"])
def test_the_file_has_real_types(tmp_path: Path, line: str) -> None:
    assert _error(config=write_config(tmp_path, line)).value is not None


def test_broken_or_missing_file_is_named(tmp_path: Path) -> None:
    assert "config.toml" in str(_error(config=write_config(tmp_path, "port =")).value)
    assert "gone.toml" in str(_error(config=tmp_path / "gone.toml").value)


def test_settings_built_by_hand_are_checked_too() -> None:
    with pytest.raises(SettingsError):
        Settings(port=70_000)


def test_every_setting_is_documented_and_its_default_allowed() -> None:
    for spec in setting_specs():
        assert len(spec.help) > 15
        assert spec.help.endswith(".")
        assert spec.range
    Settings()


def test_parse_setting_reads_numbers() -> None:
    spec = next(spec for spec in setting_specs() if spec.name == "default_timeout_s")
    assert parse_setting(spec, "2.5", source="--default-timeout-s") == 2.5


def test_state_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings(state_dir=str(tmp_path)).state_path == tmp_path
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "state"))
    assert Settings().state_path == tmp_path / "state" / "apply-service"


@pytest.mark.parametrize(
    ("platform", "config", "state"),
    [
        ("win32", "AppData/Roaming", "AppData/Local"),
        ("darwin", ".config", "Library/Application Support"),
        ("linux", ".config", ".local/state"),
    ],
)
def test_places_of_each_system(platform: str, config: str, state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert platform_config_path({}) == Path.home() / config / "apply-service" / "config.toml"
    assert platform_state_path({}) == Path.home() / state / "apply-service"
    named = dict.fromkeys(("APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), "/elsewhere")
    assert platform_config_path(named) == Path("/elsewhere/apply-service/config.toml")
    assert platform_state_path(named) == Path("/elsewhere/apply-service")


def test_color() -> None:
    assert is_color_wanted(Settings(), True, {}) is True
    assert is_color_wanted(Settings(), False, {}) is False
    assert is_color_wanted(Settings(), True, {"NO_COLOR": "1"}) is False
    assert is_color_wanted(Settings(color="always"), False, {"NO_COLOR": "1"}) is True
    assert is_color_wanted(Settings(color="never"), True, {}) is False


def _error(
    command_line: dict[str, object] | None = None,
    *,
    environment: dict[str, str] | None = None,
    config: Path | None = None,
) -> SettingsError:
    with pytest.raises(SettingsError) as caught:
        load_settings(command_line, environment=environment or NO_FILE, config=config)
    return caught.value


def test_keys_are_in_no_repr() -> None:
    settings = Settings(api_key="hidden-one", remote_key="hidden-two")
    assert "hidden" not in repr(settings)
    assert "host='127.0.0.1'" in repr(settings)


@pytest.mark.skipif(os.name == "nt", reason="POSIX paths")
@pytest.mark.parametrize(
    "changes",
    [
        {"HOME": "h", "XDG_STATE_HOME": ""},
        {"HOME": "h", "XDG_STATE_HOME": "relative"},
        {"APPLY_SERVICE_STATE_DIR": "relative"},
        {"APPLY_SERVICE_STATE_DIR": "/proc/self/cwd/x"},
        {"APPLY_SERVICE_STATE_DIR": "/dev/fd/../fd/3"},
        {"APPLY_SERVICE_STATE_DIR": "~nobody-at-all/x"},
        {"APPLY_SERVICE_STATE_DIR": "/" + "x" * 300},
    ],
)
def test_a_state_folder_is_the_same_whatever_the_current_one_is(
    changes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError, match="bad value for state_dir"):
        load_settings()


@pytest.mark.skipif(os.name == "nt", reason="POSIX paths")
@pytest.mark.parametrize("name", ["relative", "/proc/self/cwd"])
def test_a_folder_of_the_current_one_holds_no_configuration(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path / "relative" / "apply-service", tmp_path / "apply-service"):
        place.mkdir(parents=True)
        (place / "config.toml").write_text("no_such_setting = 1\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", name)
    load_settings()


@pytest.mark.parametrize(
    "more",
    [
        {"adapter": "folder"},
        {"draft_model": "folder"},
        {"dtype": "bfloat16"},
        {"weights": "int8"},
        {"attention": "sdpa"},
        {"cuda_graphs": "on"},
    ],
)
def test_llama_cpp_refuses_what_only_torch_has(more: dict[str, str]) -> None:
    ((name, value),) = more.items()
    with pytest.raises(SettingsError, match=f"llama.cpp, which has no {name}") as caught:
        Settings(engine="llama.cpp", model="file.gguf", **more)  # type: ignore[arg-type]
    assert caught.value.value == value
    assert name in caught.value.remedy


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"drafter": "merged_edit+eagle3"}, "draft_head is not set"),
        ({"draft_head": "folder"}, "draft_head is set"),
        ({"drafter": "mtp", "draft_head": "folder"}, "draft_head is set"),
        ({"drafter": "suffix+mtp", "engine": "llama.cpp", "model": "file.gguf"}, "mtp drafts in the engine of this"),
        ({"drafter": "self_speculation", "model": "remote:x"}, "self_speculation drafts in the engine of this"),
    ],
)
def test_a_head_that_has_no_place_stops_the_start(given: dict[str, str], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        Settings(**given)  # type: ignore[arg-type]


def test_llama_cpp_needs_a_file() -> None:
    with pytest.raises(SettingsError, match="is no GGUF file"):
        Settings(engine="llama.cpp")
    named = load_settings({}, environment={"APPLY_SERVICE_ENGINE": "llama.cpp", "APPLY_SERVICE_MODEL": "a.gguf"})
    assert (named.engine, named.model) == ("llama.cpp", "a.gguf")


def test_files_that_a_configuration_names_lie_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cloned project that a command is started in may have files of these names."""
    own, project = tmp_path / "own", tmp_path / "project"
    own.mkdir()
    project.mkdir()
    (own / "config.toml").write_text('keys_file = "keys.toml"\n')
    monkeypatch.chdir(project)
    assert load_settings(environment={}, config=own / "config.toml").keys_file == str(own / "keys.toml")
    (own / "config.toml").write_text(f'keys_file = "{project / "keys.toml"}"\n')
    assert load_settings(environment={}, config=own / "config.toml").keys_file == str(project / "keys.toml")
    assert load_settings({"keys_file": "keys.toml"}, environment={}).keys_file == "keys.toml"

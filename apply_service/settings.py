"""Defines every setting of the service, with its default, range and explanation.

Only this module reads the environment and the configuration file.  `build` turns `Settings` into a running service.
`serve --help` and the reference in `docs/` are made from the fields below.

Precedence: command line > environment (`APPLY_SERVICE_QUEUE_LIMIT=8`) > file (`queue_limit = 8`, TOML) > default.  An
unknown key or a value out of range stops the start.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from apply_service.disk.paths import is_same_everywhere, platform_config_path, platform_state_path
from apply_service.errors import SettingsError
from apply_service.models import EMBEDDED
from apply_service.registry import OWN_FILES, head_of

REMOTE_PREFIX = "remote:"
"""The beginning of a remote model's source; the rest is the model's name on the server."""
VLLM = "vllm"
LLAMA_CPP = "llama.cpp"
AUTO = "auto"
RECORD = "record"
ENV_KEY = "env:"
"""The prefix of the name of a variable that holds a key."""
ENV_PREFIX = "APPLY_SERVICE_"
OLD_ENV_PREFIX = "APPLY_"
"""The prefix that our variables had in earlier versions.  Other programs use it too."""
PLACES = ("keys_file", "adapter", "draft_head")
"""Settings that name files or folders.  In a configuration file they are relative to its folder, so that a project in
which a command is started can't bring its own."""
CONFIG_VARIABLE = "APPLY_SERVICE_CONFIG"
WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
NO_VALUE = "none"
"""The word that unsets an optional setting.  The command line needs it too, because None there means an absent
option."""
NONE_WORDS = ("", NO_VALUE)
FOREIGN_MODELS = (
    *("fastapply-1.5b",),
    *("morph-v2", "morph-v3-fast", "morph-v3-large", "morph/morph-v3-fast", "morph/morph-v3-large"),
    *("relace-apply-2.5-lite", "relace-apply-3", "relace/relace-apply-3", "mercury-coder", "mercury-edit"),
)
"""Models of other services that clients name by default.  Requests may name them, but they are not listed."""
MODEL_ALIASES = ("auto", "Fast-Apply", *FOREIGN_MODELS)


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """One setting, with all that the documentation, the argument parser and the checks need."""

    name: str
    kind: type
    """The type of the value, or of an item if the setting is a list."""
    is_optional: bool
    is_list: bool
    default: object
    help: str
    group: str
    allowed: tuple[Any, ...]
    """The smallest and the largest number, or the words to choose from; () for any text."""

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENV_PREFIX + self.name.upper()

    @property
    def choices(self) -> tuple[str, ...]:
        return self.allowed if self.kind is str else ()

    @property
    def default_text(self) -> str:
        """The default, as written in the environment."""
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
        elif self.allowed:
            words = " to ".join(str(n) if isinstance(n, int) else f"{n:g}" for n in self.allowed)
        else:
            words = "texts, with commas between them" if self.is_list else "text"
        return f"{words}, or none" if self.is_optional or self.is_list else words

    def allows(self, value: object) -> bool:
        """Tell whether the setting may have this value."""
        if value is None:
            return self.is_optional
        if self.is_list:
            return isinstance(value, tuple) and all(map(self._allows_one, value))
        return self._allows_one(value)

    def _allows_one(self, item: object) -> bool:
        if type(item) is not self.kind and not (self.kind is float and type(item) is int):
            return False
        if self.choices or not self.allowed:
            return item in self.choices if self.choices else item != ""
        low, high = self.allowed
        return bool(low <= item <= high)


def parse_setting(spec: SettingSpec, text: str, *, source: str) -> object:
    """Return the value of a text from the environment or the command line.  Raises SettingsError."""
    value: object = text
    if spec.is_list:
        value = () if text.lower() in NONE_WORDS else tuple(part.strip() for part in text.split(","))
    elif spec.is_optional and text.lower() in NONE_WORDS:
        value = None
    elif spec.kind is bool:
        value = WORDS.get(text.lower(), text)
    elif spec.kind is not str:
        with suppress(ValueError):
            value = spec.kind(text)
    check_setting(spec, value, source=source)
    return value


def check_setting(spec: SettingSpec, value: object, *, source: str) -> None:
    """Raise SettingsError if the setting may not have this value."""
    if not spec.allows(value):
        message = f"bad value for {spec.name} ({source}): {value!r}; allowed: {spec.range}"
        raise SettingsError(message, value=value, limit=spec.range, remedy=f"set {spec.name} to an allowed value")


def setting(default: Any, allowed: tuple[Any, ...], text: str, *, group: str, is_secret: bool = False) -> Any:
    """Return a field of `Settings`: its default, allowed values and explanation.  `is_secret` hides it in `repr`."""
    return field(default=default, repr=not is_secret, metadata={"help": text, "group": group, "allowed": allowed})


GROUPS = ("http", "engine", "command", "backups")
_http, _engine, _command, _backups = (partial(setting, group=name) for name in GROUPS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked.  `load_settings` returns one."""

    # fmt: off
    host: str = _http("127.0.0.1", (), "Address to listen on. Anything but loopback opens the service to a network.")
    port: int = _http(8765, (0, 65535), "Port to listen on; 0 takes a free one.")
    queue_limit: int = _http(64, (1, 100_000), "Requests that may wait for the engine; one more is answered 429.")
    default_timeout_s: float = _http(120.0, (0.001, 86_400), "Deadline of a request that names none, in seconds.")
    max_timeout_s: float = _http(600.0, (0.001, 86_400), "Longest deadline a request may ask for, in seconds.")
    drain_timeout_s: float = _http(30.0, (0, 86_400),
        "How long a stopping server lets accepted requests finish, in seconds.")
    max_body_bytes: int = _http(16 * 2**20, (1024, 2**31),
        "Largest request body, in bytes; a larger one is answered 413.")
    body_budget_bytes: int = _http(128 * 2**20, (1024, 2**40),
        "Most bytes that the bodies of all requests in progress may hold together, at least one of the largest; a "
        "request beyond them is answered 429.")
    max_lines: int = _http(200_000, (1, 100_000_000), "Most lines in an original or an update; more are answered 413.")
    max_batch_edits: int = _http(2048, (1, 100_000),
        "Most edits in a batch, or files beside a patch; more are answered 413.")
    keys_file: str | None = _http(None, (),
        "File of hashed API keys (`apply-service key`); with none, every caller is let in.")
    allow_open: bool = _http(False, (),
        "Listen beyond loopback, or serve MCP over HTTP, although there are no API keys. Anyone who can reach it may "
        "use it.")
    rate_limit: int | None = _http(None, (1, 1_000_000),
        "Requests a minute of each API key, each edit of a batch counted; one more is answered 429.")
    concurrency_limit: int | None = _http(None, (1, 100_000),
        "Requests of each API key at once; one more is answered 429.")
    in_flight_limit: int = _http(512, (1, 100_000),
        "Requests at once over all keys, those being read or written included; one more is answered 429.")
    body_timeout_s: float = _http(30.0, (0.01, 86_400),
        "How long a client may take to send its body, in seconds.")
    cors_origins: tuple[str, ...] = _http((), (),
        "Origins whose web pages may call the service, as `https://example.org`; `*` is all.")
    playground: str = _http("auto", ("auto", "on", "off"),
        "Whether `/` is a page to try edits on; `auto` serves it unless the service is open to a network without keys.")
    log_level: str = _http("warning", ("debug", "info", "warning", "error"),
        "Least severity that is logged; `info` has a line for each request.")
    log_format: str = _http("text", ("text", "json"), "Shape of a log line.")
    engine: str = _engine("local", ("local", "torch", LLAMA_CPP, VLLM),
        "Where models run. `local`: in this process, the embedded model on NumPy, and on torch where an option asks "
        "for what only torch has; `torch`: also the embedded model on torch; `llama.cpp`: GGUF files in llama.cpp, in "
        "this process, as they are; `vllm`: on the vLLM server at `vllm_url`, "
        "which serves `model` and `models` by these names, and drafts as we do where it has our plug-in.")
    vllm_url: str | None = _engine(None, (),
        "URL of the vLLM server of `engine` vllm: http://HOST:PORT. Its key goes to `remote_key`.")
    model: str = _engine("embedded", (),
        "Target model: `embedded`, a folder, a GGUF file, a Hugging Face id, a short name (`apply-service models`), "
        "or `remote:NAME` on the server at `remote_url`.")
    models: tuple[str, ...] = _engine((), (),
        "More models that requests may name: NAME, or NAME=SOURCE (as for `model`). `serve` loads them at the start.")
    model_aliases: tuple[str, ...] = _http(MODEL_ALIASES, (),
        "Other names that HTTP clients may give a model: NAME stands for the service's own, NAME=MODEL for that one.")
    stream_at_once: bool = _http(False, (),
        "OpenAI-like streams send text as it is decoded; otherwise once nothing can replace it any more.")
    device: str = _engine("auto", ("auto", "cpu", "cuda", "mps"),
        "Where the model runs; `auto` takes CUDA where there is one.")
    dtype: str = _engine("auto", ("auto", "float32", "bfloat16"),
        "Number format of the weights; `auto` takes the one in which the device verifies drafts faster: on a CPU "
        "float32, unless bfloat16 is at least 1.2 times as fast.")
    weights: str = _engine("own", ("own", "fp8", "int8"),
        "Weights of the layers: of `dtype`, as the model's `own`, or in 8 bits: `fp8` (activations too; from compute "
        "capability 9.0 on) or `int8`.")
    attention: str = _engine("auto", ("auto", "sdpa", "triton"),
        "What attention runs on: `sdpa`, PyTorch's own, or the `triton` kernel; `auto` takes the kernel on CUDA where "
        "the self-test passes with it.")
    cuda_graphs: str = _engine("auto", ("auto", "on", "off"),
        "Whether passes are captured as CUDA graphs, which needs the kernel; `auto` does so where the self-test "
        "passes with them.")
    window: int | None = _engine(None, (1, 8192), "Draft tokens verified in one pass; none lets the engine choose.")
    max_active: int | None = _engine(None, (1, 4096),
        "Requests decoded at a time, in shared passes; more wait in the queue. None takes 4 on a CPU, which more at a "
        "time make slower, and 64 elsewhere.")
    large_edit_chars: int = _engine(65_536, (1, 2**31),
        "From so many characters on, file and edit together, an edit is merged and checked in a process beside the "
        "engine.")
    large_edit_workers: int = _engine(2, (0, 256),
        "Processes for large edits, started when needed, and so how many of them run at a time; 0 has the engine's "
        "thread do everything.")
    small_edit_workers: int = _engine(2, (0, 256),
        "Processes in which the other edits are read, and answered where no model is needed; 0 has the engine's "
        "thread do it.")
    kv_cache_mb: int = _engine(1024, (1, 2**22),
        "Memory for keys and values of all requests, in MiB; at least one full context is taken.")
    prefix_cache_mb: int = _engine(256, (0, 2**22),
        "Of that, how much may hold prompts already read, for edits of the same file; 0 keeps none.")
    windows: str = _engine("auto", ("auto", "context", "always", "never"),
        "When the model decides only the touched regions of a file: where the file exceeds its context, always where "
        "that saves half of a long file, or never. `auto` is always with the embedded model, else context.")
    confirm_threshold: float | None = _engine(None, (0, 1),
        "Least probability of any decision with which the model confirms a certain merge, where it may decide such "
        "merges; below it the model decides token by token. None takes the calibrated value, else 0.01.")
    choose_threshold: float | None = _engine(None, (0, 1),
        "The same for the reading that the model chooses where the merge has a few. None takes the model's calibrated "
        "value, else 0.1.")
    decides: tuple[str, ...] = _engine((RECORD,), (RECORD, "certain", "likely", "guess", "instruction"),
        "What `model` decides under strategy `auto`: merges that no format determines, by how certain they are, and "
        "instructions alone. `record`: what was counted of it, else what is not certain if it was trained to merge, "
        "and guesses and instructions if not. Of everything else the likeliest merge is taken, and no model is asked.")
    drafter: str = _engine("merged_edit+suffix", (),
        "Drafter of a request that names none; up to three in a chain: `merged_edit+suffix`. It changes the speed, "
        "never the answer. Heads (`medusa`, `eagle3`, `mtp`, `self_speculation`) draft for `model` alone, and only "
        "where they are named here.")
    adapter: str | None = _engine(None, (),
        "Folder of a LoRA adapter for `model` (`adapter_config.json`, safetensors), as peft writes it; it is added to "
        "the weights when they are loaded.")
    draft_model: str | None = _engine(None, (),
        "Smaller model that drafts for `draft_model`: a folder or a Hugging Face id, with the target's own tokenizer.")
    draft_head: str | None = _engine(None, (),
        "Folder of the head that drafts for `model` (`config.json`, safetensors), where `drafter` names `medusa` or "
        "`eagle3`.")
    allow_remote_code: bool = _engine(False, (), "Run Python code that comes with a model. Only for models you trust.")
    remote_url: str | None = _engine(None, (),
        "Base URL of the OpenAI-compatible server of the `remote:` models, with the version: https://HOST/v1.")
    remote_key: str | None = _engine(None, (),
        "API key for `remote_url`; `env:NAME` takes it from that variable of the environment.", is_secret=True)
    remote_takes: tuple[str, ...] = _engine(
        ("usage",), ("prediction", "logprobs", "seed", "usage", "max_completion_tokens", "vllm_xargs"),
        "What that server takes beyond plain chat: `prediction` (the predicted merge is sent), `logprobs` (confidence "
        "is computed), `seed`, `usage`, `max_completion_tokens` (in the place of `max_tokens`), "
        "`vllm_xargs` (the edit is sent, for our plug-in in vLLM).")
    remote_retries: int = _engine(3, (0, 20),
        "Retries with back-off after a failed connection, 429 or 5xx, before the first byte of an answer.")
    remote_silence_timeout_s: float = _engine(60.0, (0.001, 86_400), "How long that server may be silent, in seconds.")
    server: str | None = _command(AUTO, (),
        "URL of a running service that is asked instead of loading a model. `auto`: `apply` asks the one of "
        "`apply-service start` if it runs, has the same model, and no option of an engine is given; `mcp` none.")
    api_key: str | None = _command(None, (), "API key that `apply` sends to `server`.", is_secret=True)
    max_file_bytes: int = _command(64 * 2**20, (1, 2**40),
        "Largest file that `apply` and `undo` read, in bytes: the file, its snippet, a patch, a batch, and every file "
        "that these name. Over MCP `max_body_bytes` holds too.")
    color: str = _command("auto", ("auto", "always", "never"),
        "Coloured diffs; `auto` colours a terminal unless NO_COLOR is set.")
    state_dir: str | None = _backups(None, (),
        "Absolute path of the folder for backups; none takes the platform's own place for state.")
    backups_kept: int = _backups(10, (1, 10_000), "Backups kept of each file that `--in-place` changed.")
    # fmt: on

    def __post_init__(self) -> None:
        for spec in setting_specs():
            check_setting(spec, getattr(self, spec.name), source="argument")
        self._refuse_bad_models()
        if RECORD in self.decides and len(self.decides) > 1:
            message = "bad value for decides: record must stand alone, not beside kinds of edits"
            limit = "record | certain,likely,guess,instruction"
            remedy = "set decides to record, or leave record out of it"
            raise SettingsError(message, value=list(self.decides), limit=limit, remedy=remedy)
        _refuse_bad_folder(self.state_dir)
        if (self.engine == VLLM) != (self.vllm_url is not None):
            message = "engine is vllm, but " if self.engine == VLLM else "vllm_url is set, but engine is not vllm"
            message += "vllm_url is not set" if self.engine == VLLM else ""
            limit = "--engine vllm --vllm-url http://HOST:PORT"
            raise SettingsError(message, value=self.vllm_url or self.engine, limit=limit, remedy="set both, or neither")
        self._refuse_what_llama_cpp_lacks()
        is_foreign = self.engine == VLLM or self.model == EMBEDDED or self.model.startswith(REMOTE_PREFIX)
        if self.adapter is not None and is_foreign:
            message = f"adapter is set, but the model {self.model} takes none"
            limit = "a folder, a GGUF file or a Hugging Face id"
            raise SettingsError(message, value=self.model, limit=limit, remedy=f"set model (--model) to {limit}")
        self._refuse_foreign_at_vllm()
        self._refuse_misplaced_head()

    def _refuse_bad_models(self) -> None:
        """Raise SettingsError unless each further model has a name that no other has."""
        for entry, name in zip(self.models, self.more_models, strict=True):
            source = entry.partition("=")[2] or name
            own = {self.model: self.model, EMBEDDED: EMBEDDED}.get(name, source)
            if not name or self.more_models.count(name) > 1 or source != own:
                message = f"bad value for models: {entry!r}, its name is empty, or another model has it"
                limit, remedy = "NAME or NAME=SOURCE, every NAME once", "give this model a name of its own: NAME=SOURCE"
                raise SettingsError(message, value=entry, limit=limit, remedy=remedy)

    def _refuse_foreign_at_vllm(self) -> None:
        """Raise SettingsError if a model is named that a server of vLLM does not have."""
        names = [part for entry in (self.model, *self.models) for part in entry.split("=")]
        foreign = [name for name in names if name == EMBEDDED or name.startswith(REMOTE_PREFIX)]
        if self.engine == VLLM and foreign:
            message = f"engine is vllm, but its server does not serve {', '.join(foreign)}"
            limit = "the name that vLLM serves"
            raise SettingsError(
                message, value=foreign, limit=limit, remedy="set model (--model) to a name that it serves"
            )

    def _refuse_misplaced_head(self) -> None:
        """Raise SettingsError if a head is to draft in an engine that has no place for heads, if a head lacks its
        folder, or if there is a folder but no head that reads it."""
        head = head_of(self.drafter)
        if head is not None and (self.engine in (VLLM, LLAMA_CPP) or self.model.startswith(REMOTE_PREFIX)):
            message = f"drafter is {self.drafter}, but {head} drafts in the engine of this process alone"
            limit = "torch"
            remedy = "name another drafter, or leave out engine and set model (--model) to a model that runs here"
            raise SettingsError(message, value=head, limit=limit, remedy=remedy)
        if (head in OWN_FILES) != (self.draft_head is not None):
            message = f"drafter is {self.drafter}, but draft_head is " + ("not set" if head in OWN_FILES else "set")
            limit, remedy = f"draft_head with {' or '.join(OWN_FILES)}", "set both, or neither"
            raise SettingsError(message, value=self.draft_head or head, limit=limit, remedy=remedy)

    def _refuse_what_llama_cpp_lacks(self) -> None:
        """Raise SettingsError if llama.cpp has no GGUF file to run, or a setting is used that only torch has."""
        if self.engine != LLAMA_CPP:
            return
        if self.model == EMBEDDED:
            message = f"engine is {LLAMA_CPP}, but model is {EMBEDDED}, which is no GGUF file"
            remedy = "set model (--model) to a GGUF file, or leave out engine"
            raise SettingsError(message, value=self.model, limit="a GGUF file", remedy=remedy)
        for name in ("adapter", "draft_model", "dtype", "weights", "attention", "cuda_graphs"):
            usual = next(spec.default for spec in setting_specs() if spec.name == name)
            if (value := getattr(self, name)) != usual:
                message = f"engine is {LLAMA_CPP}, which has no {name}"
                raise SettingsError(message, value=value, limit=usual, remedy=f"leave out {name} or engine")

    @property
    def has_playground(self) -> bool:
        """Whether the page at `/` is served."""
        is_open = self.allow_open and self.keys_file is None
        return self.playground == "on" or (self.playground == "auto" and not is_open)

    @property
    def model_sources(self) -> dict[str, str]:
        """The source of every model that a request may name.  The service's own model comes first.  The embedded model
        is included if models run in this process."""
        more = {name: source or name for name, _, source in (entry.partition("=") for entry in self.models)}
        named = {self.model: self.model, **more}
        if self.engine == VLLM:
            return {name: REMOTE_PREFIX + source for name, source in named.items()}
        return {**named, EMBEDDED: EMBEDDED}

    @property
    def more_models(self) -> tuple[str, ...]:
        """The names in `models`."""
        return tuple(entry.partition("=")[0] for entry in self.models)

    @property
    def state_path(self) -> Path:
        """The folder for backups; not created here."""
        return Path(self.state_dir).expanduser() if self.state_dir is not None else platform_state_path(os.environ)


def _refuse_bad_folder(name: str | None) -> None:
    """Raise SettingsError if no folder can have this name, or the name depends on the current folder.  None means the
    platform's own state folder."""
    try:
        place = platform_state_path(os.environ) if name is None else Path(name).expanduser()
        place.exists()
        why = "" if is_same_everywhere(place) else "it depends on the current folder, so a project would bring its own"
    except RuntimeError as error:  # `~` with an unknown user, or there is no home
        why = str(error)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
    if why:
        message = f"bad value for state_dir: {str(name)[:200]!r}; {why}"
        raise SettingsError(
            message, value=name, limit="an absolute path", remedy="set state_dir (--state-dir) to an absolute path"
        )


@cache
def setting_specs() -> tuple[SettingSpec, ...]:
    """Return all settings in the order of the class."""
    hints = get_type_hints(Settings)
    specs = []
    for item in fields(Settings):
        hint = hints[item.name]
        kinds = get_args(hint) or (hint,)
        is_list = get_origin(hint) is tuple
        specs.append(SettingSpec(item.name, kinds[0], type(None) in kinds, is_list, item.default, **item.metadata))
    return tuple(specs)


def load_settings(
    command_line: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | Path | None = None,
) -> Settings:
    """Return the settings in force.  A None in `command_line` counts as not given.  `environment`: by default the
    environment of this process.

    The file is `config`, else the one that APPLY_SERVICE_CONFIG names, else the one in the platform's configuration
    folder; only the last may be missing.  A variable's old name counts if its new one is not set.  Raises
    SettingsError, which names the key, its source, its value and the range.
    """
    environment = with_new_names(os.environ if environment is None else environment)
    values: dict[str, Any] = {}
    if named := config if config is not None else environment.get(CONFIG_VARIABLE):
        values = _read_file(Path(os.path.expanduser(named)))
    elif os.path.isfile(usual := platform_config_path(environment)) and is_same_everywhere(usual):
        values = _read_file(usual)
    variables = {key for key in environment if key.startswith(ENV_PREFIX)} - {CONFIG_VARIABLE}
    refuse_unknown({key.removeprefix(ENV_PREFIX).lower() for key in variables}, "environment")
    for spec in setting_specs():
        if spec.variable in variables:
            values[spec.name] = parse_setting(spec, environment[spec.variable], source=spec.variable)
    values |= {name: value for name, value in (command_line or {}).items() if value is not None}
    refuse_unknown(values, "command line")
    for spec in setting_specs():
        if spec.is_optional and values.get(spec.name) == NO_VALUE:
            values[spec.name] = None
    return Settings(**values)


def renamed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the new name for each of our variables that is set under its old name."""
    names = [CONFIG_VARIABLE, *(spec.variable for spec in setting_specs())]
    old_names = {OLD_ENV_PREFIX + name.removeprefix(ENV_PREFIX): name for name in names}
    return {old: new for old, new in old_names.items() if old in environment}


def with_new_names(environment: Mapping[str, str]) -> Mapping[str, str]:
    """Return the environment with our variables under their new names."""
    return {new: environment[old] for old, new in renamed_variables(environment).items()} | dict(environment)


def own_places(settings: Settings, *, config: str | Path | None = None) -> tuple[Path, ...]:
    """Return the places of state, configuration and keys: the platform's usual places, and the places in use.  No edit
    for somebody else may reach them.  `config`: the same as for `load_settings`."""
    named = [config if config is not None else with_new_names(os.environ).get(CONFIG_VARIABLE), settings.keys_file]
    places = [settings.state_path, *(Path(name).expanduser() for name in named if name)]
    with suppress(RuntimeError):  # a user without a home has no usual places
        places += [platform_state_path(os.environ), platform_config_path(os.environ).parent]
    return tuple(places)


def _read_file(path: Path) -> dict[str, Any]:
    """Return the settings in a file, checked.  Raises SettingsError."""
    import tomllib  # imported late, because most commands have no file to read

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"the configuration file cannot be read: {error}"
        remedy = "correct the file, or name another with --config"
        raise SettingsError(message, value=str(path), remedy=remedy) from error
    refuse_unknown(table, str(path))
    for spec in setting_specs():
        if spec.name in table:
            if spec.is_list and isinstance(table[spec.name], list):
                table[spec.name] = tuple(table[spec.name])
            check_setting(spec, table[spec.name], source=str(path))
    for name in PLACES:
        if isinstance(place := table.get(name), str) and place != NO_VALUE:
            table[name] = os.path.join(os.path.abspath(path.parent), os.path.expanduser(place))
    return table


def refuse_unknown(given: Iterable[str], source: str) -> None:
    """Raise SettingsError if one of the names is not a setting."""
    known = [spec.name for spec in setting_specs()]
    for name in sorted(given):
        if name not in known:
            message = f"unknown setting {name!r} ({source})"
            raise SettingsError(message, value=name, limit=known, remedy="correct its name, or remove it")


def fleet_settings(args: Mapping[str, Any]) -> Settings:
    """Return the settings for all servers of a fleet.  They come only from the `args` of the fleet's configuration
    file.  Raises the SettingsErrors of `Settings`.  Also raises SettingsError if a setting has no meaning in a fleet,
    or if neither keys nor `allow_open` are set."""
    refuse_unknown(args, "args")
    for spec in setting_specs():
        if spec.name in args and (spec.group == "command" or spec.name in ("host", "port", "backups_kept")):
            remedy = "remove it; where Ray listens is set in `http_options`"
            raise SettingsError(f"{spec.name} has no effect on Ray Serve", value=args[spec.name], remedy=remedy)
    values: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in args.items()}
    settings = Settings(**values)
    if settings.keys_file is None and not settings.allow_open:
        remedy = "set keys_file, or allow_open: true if only a trusted network reaches Ray"
        raise SettingsError("no API keys are configured", limit="keys_file, or allow_open", remedy=remedy)
    return settings


def is_color_wanted(settings: Settings, is_terminal: bool, environment: Mapping[str, str] | None = None) -> bool:
    """Tell whether output is to be coloured."""
    environment = os.environ if environment is None else environment
    if settings.color == "auto":
        return is_terminal and not environment.get("NO_COLOR")
    return settings.color == "always"

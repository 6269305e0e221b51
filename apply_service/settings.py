"""Every setting of the service: name, default, range and explanation, each said once, here.

With `setting_sources` the only reader of the environment and of the configuration file.  It builds nothing: `build`
turns a `Settings` into a running service, and `serve --help` and the reference in `docs/` are printed from the fields
below.

Precedence: command line > environment (`APPLY_QUEUE_LIMIT=8`) > file (`queue_limit = 8`, TOML) > default.  An unknown
key and a value out of range stop the start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from apply_service.disk.paths import platform_state_path
from apply_service.errors import SettingsError
from apply_service.model_folder import EMBEDDED
from apply_service.setting_sources import config_path, read_environment, read_file, refuse_unknown
from apply_service.setting_specs import SettingSpec, check_setting, setting

VLLM = "vllm"
ENV_KEY = "env:"
"""Before the name of a variable that holds a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings, checked.  Build it with `load_settings`; built by hand it is checked just the same."""

    host: str = setting(
        "127.0.0.1", "Address to listen on. Anything but loopback opens the service to a network.", group="http"
    )
    port: int = setting(8765, "Port to listen on; 0 takes a free one.", group="http", low=0, high=65535)
    queue_limit: int = setting(
        64, "Requests that may wait for the engine; one more is answered 429.", group="http", low=1, high=100_000
    )
    default_timeout_s: float = setting(
        120.0, "Deadline of a request that names none, in seconds.", group="http", low=0.001, high=86_400
    )
    max_timeout_s: float = setting(
        600.0, "Longest deadline a request may ask for, in seconds.", group="http", low=0.001, high=86_400
    )
    drain_timeout_s: float = setting(
        30.0, "How long a stopping server lets accepted requests finish, in seconds.", group="http", low=0, high=86_400
    )
    max_body_bytes: int = setting(
        16 * 2**20, "Largest request body, in bytes; a larger one is answered 413.", group="http", low=1024, high=2**31
    )
    body_budget_bytes: int = setting(
        128 * 2**20,
        "Most bytes that the bodies of all requests in progress may hold together, at least one of the largest; a "
        "request beyond them is answered 429.",
        group="http",
        low=1024,
        high=2**40,
    )
    max_lines: int = setting(
        200_000, "Most lines in an original or an update; more are answered 413.", group="http", low=1, high=100_000_000
    )
    max_batch_edits: int = setting(
        2048,
        "Most edits in a batch, or files beside a patch; more are answered 413.",
        group="http",
        low=1,
        high=100_000,
    )
    keys_file: str | None = setting(
        None, "File of hashed API keys (`apply-service key`); with none, every caller is let in.", group="http"
    )
    allow_open: bool = setting(
        False,
        "Listen beyond loopback although there are no API keys. Anyone who can reach it may use it.",
        group="http",
    )
    rate_limit: int | None = setting(
        None,
        "Requests a minute of each API key, each edit of a batch counted; one more is answered 429.",
        group="http",
        low=1,
        high=1_000_000,
    )
    concurrency_limit: int | None = setting(
        None, "Requests of each API key at once; one more is answered 429.", group="http", low=1, high=100_000
    )
    in_flight_limit: int = setting(
        512,
        "Requests at once over all keys, those being read or written included; one more is answered 429.",
        group="http",
        low=1,
        high=100_000,
    )
    body_timeout_s: float = setting(
        30.0,
        "How long a client may take to send its headers, and then its body, in seconds.",
        group="http",
        low=0.01,
        high=86_400,
    )
    write_timeout_s: float = setting(
        60.0,
        "How long a client may leave a piece of its answer unread, in seconds.",
        group="http",
        low=0.01,
        high=86_400,
    )
    idempotency_ttl_s: float = setting(
        600.0,
        "How long an answer is kept for its Idempotency-Key, in seconds; 0 keeps none.",
        group="http",
        low=0,
        high=86_400,
    )
    idempotency_bytes: int = setting(
        64 * 2**20,
        "Memory for kept answers, in bytes; the least recently used go first.",
        group="http",
        low=1024,
        high=2**36,
    )
    cors_origins: tuple[str, ...] = setting(
        (), "Origins whose web pages may call the service, as `https://example.org`; `*` is all.", group="http"
    )
    log_level: str = setting(
        "info",
        "Least severity that is logged.",
        group="http",
        choices=("debug", "info", "warning", "error"),
    )
    log_format: str = setting("text", "Shape of a log line.", group="http", choices=("text", "json"))
    log_code: bool = setting(
        False,
        "Log the code of every edit as well: original, update and result. Otherwise logs never hold code.",
        group="http",
    )
    trace_endpoint: str | None = setting(
        None,
        "OTLP/HTTP URL that OpenTelemetry traces are sent to; none sends none. Needs the extra `otel`.",
        group="http",
    )

    engine: str = setting(
        "local",
        "Where models run: in this process, or `vllm`: on the vLLM server at `vllm_url`, which serves `model` and "
        "`models` by these names, and drafts as we do where it has our plug-in.",
        group="engine",
        choices=("local", "vllm"),
    )
    vllm_url: str | None = setting(
        None, "URL of the vLLM server of `engine` vllm: http://HOST:PORT. Its key goes to `remote_key`.", group="engine"
    )
    model: str = setting(
        "embedded",
        "Target model: `embedded`, a folder, a Hugging Face id, `remote:NAME` on the server at `remote_url`, or "
        "`replay:SHAPE` to measure speed.",
        group="engine",
    )
    models: tuple[str, ...] = setting(
        (),
        "More models that requests may name: NAME, or NAME=SOURCE (as for `model`). `serve` loads them at the start.",
        group="engine",
    )
    model_aliases: tuple[str, ...] = setting(
        (
            "auto",
            "Fast-Apply",
            "fastapply-1.5b",
            "morph-v2",
            "morph-v3-fast",
            "morph-v3-large",
            "morph/morph-v3-fast",
            "morph/morph-v3-large",
            "relace-apply-2.5-lite",
            "relace-apply-3",
            "relace/relace-apply-3",
            "mercury-coder",
            "mercury-edit",
        ),
        "Other names that HTTP clients may give a model: NAME stands for the service's own, NAME=MODEL for that one.",
        group="http",
    )
    stream_at_once: bool = setting(
        False,
        "OpenAI-like streams send text as it is decoded; otherwise once nothing can replace it any more.",
        group="http",
    )
    device: str = setting(
        "auto",
        "Where the model runs; `auto` takes CUDA where there is one.",
        group="engine",
        choices=("auto", "cpu", "cuda", "mps"),
    )
    dtype: str = setting(
        "auto",
        "Number format of the weights; `auto` takes what suits the device.",
        group="engine",
        choices=("auto", "float32", "bfloat16"),
    )
    weights: str = setting(
        "auto",
        "Weights of the layers: `bf16`, `fp8` (row-wise; from compute capability 9.0 on) or `int8` (alone, activations "
        "as they are). `auto` keeps the model's own format and on CUDA takes a smaller one where it does not fit.",
        group="engine",
        choices=("auto", "bf16", "fp8", "int8"),
    )
    attention: str = setting(
        "auto",
        "What attention runs on: `sdpa`, PyTorch's own, or the `triton` kernel; `auto` takes the kernel on CUDA where "
        "the self-test passes with it.",
        group="engine",
        choices=("auto", "sdpa", "triton"),
    )
    cuda_graphs: str = setting(
        "auto",
        "Whether passes are captured as CUDA graphs, which needs the kernel; `auto` does so where the self-test passes "
        "with them.",
        group="engine",
        choices=("auto", "on", "off"),
    )
    window: int | None = setting(
        None, "Draft tokens verified in one pass; none lets the engine choose.", group="engine", low=1, high=8192
    )
    max_active: int | None = setting(
        None,
        "Requests decoded at a time, in shared passes; more wait in the queue. None takes 4 on a CPU, which more at a "
        "time make slower, and 64 elsewhere.",
        group="engine",
        low=1,
        high=4096,
    )
    large_edit_chars: int = setting(
        65_536,
        "From so many characters on, file and edit together, an edit is merged and checked in a process beside the "
        "engine.",
        group="engine",
        low=1,
        high=2**31,
    )
    large_edit_workers: int = setting(
        2,
        "Processes for large edits, started when needed, and so how many of them run at a time; 0 has the engine's "
        "thread do everything.",
        group="engine",
        low=0,
        high=256,
    )
    small_edit_workers: int = setting(
        2,
        "Processes in which the other edits are read, and answered where no model is needed; 0 has the engine's thread "
        "do it.",
        group="engine",
        low=0,
        high=256,
    )
    kv_cache_mb: int = setting(
        1024,
        "Memory for keys and values of all requests, in MiB; at least one full context is taken.",
        group="engine",
        low=1,
        high=2**22,
    )
    prefix_cache_mb: int = setting(
        256,
        "Of that, how much may hold prompts already read, for edits of the same file; 0 keeps none.",
        group="engine",
        low=0,
        high=2**22,
    )
    windows: str = setting(
        "auto",
        "When the model decides only the touched regions of a file: where the file exceeds its context, always where "
        "that saves half of a long file, or never. `auto` is always with the embedded model, else context.",
        group="engine",
        choices=("auto", "context", "always", "never"),
    )
    confirm_threshold: float | None = setting(
        None,
        "Least probability of any decision with which the model confirms a certain merge; below it the model decides "
        "token by token, or the merge stays with a warning, as the model's calibration says. None takes the calibrated "
        "value, else 0.01.",
        group="engine",
        low=0,
        high=1,
    )
    choose_threshold: float | None = setting(
        None,
        "The same for the reading that the model chooses where the merge has a few. None takes the model's calibrated "
        "value, else 0.1.",
        group="engine",
        low=0,
        high=1,
    )
    drafter: str = setting(
        "merged_edit",
        "Drafter of a request that names none; two in a chain: `merged_edit+suffix`. It changes the speed, never the "
        "answer.",
        group="engine",
    )
    draft_model: str | None = setting(
        None,
        "Smaller model that drafts for `draft_model`: a folder or a Hugging Face id, with the target's own tokenizer.",
        group="engine",
    )
    allow_remote_code: bool = setting(
        False, "Run Python code that comes with a model. Only for models you trust.", group="engine"
    )
    torch_threads: int | None = setting(
        None, "CPU threads of a forward pass; none leaves it to torch.", group="engine", low=1, high=1024
    )

    remote_url: str | None = setting(
        None,
        "Base URL of the OpenAI-compatible server of the `remote:` models, with the version: https://HOST/v1.",
        group="engine",
    )
    remote_key: str | None = setting(
        None,
        "API key for `remote_url`; `env:NAME` takes it from that variable of the environment.",
        group="engine",
        is_secret=True,
    )
    remote_takes: tuple[str, ...] = setting(
        ("usage",),
        "What that server takes beyond plain chat: `prediction` (the predicted merge is sent), `logprobs` (confidence "
        "is computed), `seed`, `usage` (in streams), `max_completion_tokens` (in the place of `max_tokens`), "
        "`vllm_xargs` (the edit is sent, for our plug-in in vLLM).",
        group="engine",
        choices=("prediction", "logprobs", "seed", "usage", "max_completion_tokens", "vllm_xargs"),
    )
    remote_stream: bool = setting(True, "Have that server stream, so that text comes as it is written.", group="engine")
    remote_retries: int = setting(
        3,
        "Retries with back-off after a failed connection, 429 or 5xx, before the first byte of an answer.",
        group="engine",
        low=0,
        high=20,
    )
    remote_connect_timeout_s: float = setting(
        10.0, "How long a connection to that server may take, in seconds.", group="engine", low=0.001, high=86_400
    )
    remote_silence_timeout_s: float = setting(
        60.0, "How long that server may be silent, in seconds.", group="engine", low=0.001, high=86_400
    )
    remote_max_bytes: int = setting(
        64 * 2**20, "Largest answer of that server, in bytes, events included.", group="engine", low=1024, high=2**31
    )

    server: str | None = setting(
        None, "URL of a running service that `apply` asks instead of loading a model.", group="command"
    )
    api_key: str | None = setting(None, "API key that `apply` sends to `server`.", group="command", is_secret=True)
    color: str = setting(
        "auto",
        "Coloured diffs; `auto` colours a terminal unless NO_COLOR is set.",
        group="command",
        choices=("auto", "always", "never"),
    )
    state_dir: str | None = setting(
        None, "Folder for backups; none takes the platform's own place for state.", group="backups"
    )
    backups_kept: int = setting(
        10, "Backups kept of each file that `--in-place` changed.", group="backups", low=1, high=10_000
    )

    def __post_init__(self) -> None:
        for spec in setting_specs():
            check_setting(spec, getattr(self, spec.name), source="argument")
        self._refuse_ambiguous_models()
        self._refuse_half_an_engine()

    @property
    def model_sources(self) -> dict[str, str]:
        """Name -> source of every model that a request may name: the service's own first, the embedded one among
        them where models run here."""
        more = {name: source or name for name, _, source in (entry.partition("=") for entry in self.models)}
        named = {self.model: self.model, **more}
        if self.engine == VLLM:
            return {name: f"remote:{source}" for name, source in named.items()}
        return {**named, EMBEDDED: EMBEDDED}

    @property
    def more_models(self) -> tuple[str, ...]:
        """The names in `models`."""
        return tuple(entry.partition("=")[0] for entry in self.models)

    @property
    def state_path(self) -> Path:
        """Where backups go; never created here."""
        return Path(self.state_dir).expanduser() if self.state_dir is not None else platform_state_path(os.environ)

    def _refuse_half_an_engine(self) -> None:
        if (self.engine == VLLM) != (self.vllm_url is not None):
            raise SettingsError(
                "engine vllm and vllm_url go together.",
                value=self.vllm_url or self.engine,
                limit="--engine vllm --vllm-url http://HOST:PORT",
                remedy="Set both, or neither.",
            )
        prefixes = ("remote:", "replay:")
        names = [part for entry in (self.model, *self.models) for part in entry.split("=")]
        foreign = [name for name in names if name == EMBEDDED or name.startswith(prefixes)]
        if self.engine == VLLM and foreign:
            raise SettingsError(
                "With engine vllm a model is named as the vLLM server names it.",
                value=foreign,
                limit="the name that vLLM serves",
                remedy="Set model (--model) to it.",
            )

    def _refuse_ambiguous_models(self) -> None:
        for entry, name in zip(self.models, self.more_models, strict=True):
            source = entry.partition("=")[2] or name
            own = {self.model: self.model, EMBEDDED: EMBEDDED}.get(name, source)
            if not name or self.more_models.count(name) > 1 or source != own:
                raise SettingsError(
                    f"Bad value for models: {entry!r}; each name must stand for one model.",
                    value=entry,
                    limit="NAME or NAME=SOURCE, every NAME once",
                    remedy="Give the model another name.",
                )


@cache
def setting_specs() -> tuple[SettingSpec, ...]:
    """All settings in the order of the class."""
    hints = get_type_hints(Settings)
    return tuple(SettingSpec.of(item, hints[item.name]) for item in fields(Settings))


def load_settings(
    command_line: Mapping[str, object] | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    config: str | Path | None = None,
) -> Settings:
    """The settings in force.  `command_line` holds only what was given there; a None in it counts as not given.

    `environment` is the process's own unless passed.  The file is `config`, else APPLY_CONFIG, else the platform's
    configuration folder, where it may be missing.

    Raises:
        SettingsError: names the key, where it stands, its value and the range.
    """
    environment = os.environ if environment is None else environment
    specs = setting_specs()
    values: dict[str, Any] = dict(read_file(config_path(config, environment), specs))
    values |= dict(read_environment(environment, specs))
    values |= {name: value for name, value in (command_line or {}).items() if value is not None}
    refuse_unknown(values, "command line", specs)
    return Settings(**values)


def is_color_wanted(settings: Settings, is_terminal: bool, environment: Mapping[str, str] | None = None) -> bool:
    """Whether output is to be coloured."""
    environment = os.environ if environment is None else environment
    if settings.color == "auto":
        return is_terminal and not environment.get("NO_COLOR")
    return settings.color == "always"

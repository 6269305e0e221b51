"""A GGUF file as llama.cpp has it: its weights, which stay where they are, its vocabulary in bytes, and what it says of
itself.

Uses the bindings of `llama-cpp-python` for the C interface, and nothing of that package's own classes.
"""

from __future__ import annotations

import ctypes
import logging
import time
import weakref
from collections import deque
from collections.abc import Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from apply_service.engine.progress import telling
from apply_service.errors import MissingDependency, ModelNotLoadable, missing_extra

MAGIC = b"GGUF"
ALL_LAYERS = 10_000
LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.DEBUG, 4: logging.INFO}
"""Of the library's log by its own levels (debug, info, warning, error); what goes wrong is told by typed errors."""
ERROR = 4
CONTROL, USER_DEFINED = 1 << 3, 1 << 4
"""Attributes of tokens."""
NO_TOKEN = -1

log = logging.getLogger(__name__)
_complaints: deque[str] = deque(maxlen=4)
_kept: list[Any] = []
"""The log function that the library calls as long as the process lives."""


@cache
def open_library() -> Any:
    """The bindings of llama.cpp, with their log sent to ours.  Raises MissingDependency: they are not installed, or
    their library can't be loaded."""
    try:
        from llama_cpp import llama_cpp as library
    except ImportError as error:
        raise missing_extra(f"The engine llama.cpp runs on llama-cpp-python ({error})", "llamacpp") from error
    except (OSError, RuntimeError) as error:
        remedy = "install llama-cpp-python again, built for this machine"
        raise MissingDependency(f"llama.cpp can't be loaded: {error}", value="llama.cpp", remedy=remedy) from error

    def tell(level: int, text: bytes, _data: object) -> None:
        line = text.decode(errors="replace").strip()
        if line and level == ERROR:
            _complaints.append(line)
        if line:
            log.log(LEVELS.get(level, logging.DEBUG), "llama.cpp: %s", line)

    _kept.append(library.llama_log_callback(tell))
    library.llama_log_set(_kept[-1], ctypes.c_void_p(0))
    library.llama_backend_init()
    return library


def last_complaint() -> str:
    """What the library last called an error, in its words, which are then forgotten."""
    text = "; ".join(_complaints) or "llama.cpp does not say why"
    _complaints.clear()
    return text


class LlamaModel:
    """The weights and the vocabulary of one file.  `device`: `auto` has all layers on a GPU where the library was built
    for one, `cuda` and `mps` insist on that, `cpu` has none there.

    Raises:
        MissingDependency: llama-cpp-python is not installed, or was built without a GPU that is asked for.
        ModelNotLoadable: the file is no GGUF, or llama.cpp can't load it, or it has a state that can't be rolled back.
    """

    def __init__(self, path: Path, *, device: str = "auto") -> None:
        started = time.perf_counter()
        refuse_other_files(path)
        self.library = library = open_library()
        self.path = path
        options = library.llama_model_default_params()
        self.is_on_gpu = device != "cpu" and bool(library.llama_supports_gpu_offload())
        if device in ("cuda", "mps") and not self.is_on_gpu:
            remedy = "use --device cpu, or install llama-cpp-python built for the GPU"
            raise MissingDependency("this llama.cpp was built for the CPU alone", value=device, remedy=remedy)
        options.n_gpu_layers = ALL_LAYERS if self.is_on_gpu else 0
        with telling(f"loading {path.name} into llama.cpp"):
            self.handle = library.llama_model_load_from_file(str(path).encode(), options)
        if not self.handle:
            remedy = "download it again, or use another model or a newer llama-cpp-python"
            message = f"llama.cpp can't load the file: {last_complaint()}"
            raise ModelNotLoadable(message, value=str(path), remedy=remedy)
        self.free = weakref.finalize(self, library.llama_model_free, self.handle)
        self._vocabulary = library.llama_model_get_vocab(self.handle)
        self.n_vocab: int = library.llama_vocab_n_tokens(self._vocabulary)
        self.n_trained: int = library.llama_model_n_ctx_train(self.handle)
        self._pieces: dict[int, bytes] = {}
        self._refuse_unsuited()
        self.load_s = time.perf_counter() - started

    def _refuse_unsuited(self) -> None:
        """Raises ModelNotLoadable: wrong drafts can't be taken back, or it is no decoder."""
        library = self.library
        why = ""
        if library.llama_model_is_recurrent(self.handle) or library.llama_model_is_hybrid(self.handle):
            why = "the model keeps a recurrent state, which this engine can't roll back after a wrong draft"
        elif library.llama_model_has_encoder(self.handle) or not library.llama_model_has_decoder(self.handle):
            why = "the model is no plain decoder"
        if why:
            remedy = "use another model"
            raise ModelNotLoadable(
                why, value=str(self.path), limit="models whose only state is keys and values", remedy=remedy
            )

    def metadata(self, key: str) -> str | None:
        """A value that the file names, as text; None if it has no such key."""
        room = ctypes.create_string_buffer(256)
        n_bytes = self.library.llama_model_meta_val_str(self.handle, key.encode(), room, len(room))
        return None if n_bytes < 0 else room.value.decode(errors="replace")

    @property
    def bytes_per_cell(self) -> int:
        """Keys and values of one token in all layers, as 16-bit floats."""
        library, arch = self.library, self.metadata("general.architecture") or ""
        usual = library.llama_model_n_embd(self.handle) // max(1, library.llama_model_n_head(self.handle))
        lengths = (self.metadata(f"{arch}.attention.{name}_length") for name in ("key", "value"))
        sizes = sum(int(length) if length and length.isdecimal() else usual for length in lengths)
        n_heads: int = library.llama_model_n_head_kv(self.handle)
        return max(1, 2 * int(library.llama_model_n_layer(self.handle)) * n_heads * sizes)

    # -- the vocabulary ------------------------------------------------------------------------------------------------
    def encode(self, text: bytes, *, is_control: bool = False) -> list[int]:
        """The ids of a text.  `is_control`: spellings of control tokens become these tokens."""
        room = (ctypes.c_int32 * (len(text) + 8))()
        tokenize = self.library.llama_tokenize
        n_ids = tokenize(self._vocabulary, text, len(text), room, len(room), False, is_control)
        if n_ids < 0:  # more tokens than bytes: never seen, but the interface allows it
            room = (ctypes.c_int32 * -n_ids)()
            n_ids = tokenize(self._vocabulary, text, len(text), room, len(room), False, is_control)
        return room[:n_ids]

    def piece(self, token: int) -> bytes:
        """The bytes of a token; none for a control token."""
        if (known := self._pieces.get(token)) is None:
            known = self._pieces[token] = self._read_piece(token)
        return known

    def _read_piece(self, token: int) -> bytes:
        if not 0 <= token < self.n_vocab:
            return b""
        room = ctypes.create_string_buffer(256)
        read = self.library.llama_token_to_piece
        n_bytes = read(self._vocabulary, token, room, len(room), 0, False)
        if n_bytes < 0:
            room = ctypes.create_string_buffer(-n_bytes)
            n_bytes = read(self._vocabulary, token, room, len(room), 0, False)
        return room.raw[:n_bytes]

    def pieces(self) -> Mapping[int, bytes]:
        """The bytes of every token."""
        return {token: self.piece(token) for token in range(self.n_vocab)}

    @cached_property
    def defined_by_user(self) -> list[bytes]:
        """Spellings that become one token wherever they stand in a text, although no merge makes them."""
        attribute = self.library.llama_vocab_get_attr
        return [self.piece(i) for i in range(self.n_vocab) if attribute(self._vocabulary, i) & USER_DEFINED]

    @property
    def end_id(self) -> int | None:
        """The token that ends a turn in a chat, else a text; None if there is none."""
        ends = (self.library.llama_vocab_eot(self._vocabulary), self.library.llama_vocab_eos(self._vocabulary))
        return next((int(token) for token in ends if token != NO_TOKEN), None)

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """All tokens that end an answer."""
        is_end = self.library.llama_vocab_is_eog
        return frozenset(token for token in range(self.n_vocab) if is_end(self._vocabulary, token))

    @property
    def chat_template(self) -> str | None:
        """The Jinja template of a chat, which is data: nobody runs it here."""
        template = self.library.llama_model_chat_template(self.handle, None)
        return None if template is None else template.decode(errors="replace")

    @property
    def names(self) -> dict[str, str]:
        """The texts of the tokens that templates name."""
        library, vocabulary = self.library, self._vocabulary
        ids = {"bos_token": library.llama_vocab_bos(vocabulary), "eos_token": library.llama_vocab_eos(vocabulary)}
        texts = {name: b"" if i == NO_TOKEN else library.llama_vocab_get_text(vocabulary, i) for name, i in ids.items()}
        return {name: text.decode(errors="replace") for name, text in texts.items()}


def refuse_other_files(path: Path) -> None:
    """Raises ModelNotLoadable: this is no GGUF file, so llama.cpp can't load it."""
    remedy = "name a GGUF file (--model FILE.gguf), or leave out --engine llama.cpp"
    try:
        with path.open("rb") as file:
            magic = file.read(4)
        message = f"llama.cpp runs GGUF files, and this is none: it begins with {magic!r}, not with {MAGIC!r}"
    except FileNotFoundError:
        magic, message = b"", "there is no such file (llama.cpp runs GGUF files, by their names)"
    except OSError as error:
        magic, message = b"", f"llama.cpp runs GGUF files, and this can't be read as one: {error.strerror or error}"
    if magic != MAGIC:
        raise ModelNotLoadable(message, value=str(path), limit="a GGUF file", remedy=remedy)

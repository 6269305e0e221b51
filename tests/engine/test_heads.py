"""Heads in the target's engine: what they read, what they forget, and that they change nothing but the speed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from apply_service.decoding.scheduler import Scheduler
from apply_service.decoding.verify import Decoding
from apply_service.drafting.drafter import NoDraft, open_drafter
from apply_service.engine.heads.base import open_head
from apply_service.engine.torch_local import TorchEngine
from apply_service.errors import ModelNotLoadable, UnsupportedParameter
from apply_service.protocols import DraftContext, DraftHead, SamplingParams
from tests.decoding.alone import decode_alone
from tests.drafting.simulation import job
from tests.engine.tiny_models import SIZES, tiny_model
from tests.plain_bytes import PlainBytes

WIDTH, VOCAB, N_LAYERS = SIZES["hidden_size"], SIZES["vocab_size"], SIZES["num_hidden_layers"]
PROMPT = [int(i) for i in torch.randint(0, 250, (45,), generator=torch.Generator().manual_seed(4))]
EAGLE = {
    "hidden_size": 64,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": VOCAB,
    "draft_vocab_size": 300,
    "max_position_embeddings": 2048,
    "eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]},
}
KINDS = ("medusa", "eagle3", "p_eagle", "mtp.", "model.mtp_layers.0.", "model.layers.2.", "self_speculation")


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape))) / shape[-1] ** 0.5


def write_head(folder: Path, config: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    save_file(tensors, folder / "model.safetensors")


def layer_tensors(width: int, inner: int, n_in: int, *, bias: bool) -> dict[str, torch.Tensor]:
    """A decoder layer with six heads of 16, or four for the width of 64, and two for keys and values."""
    queries = 16 * (4 if width == 64 else 6)
    tensors = {
        "self_attn.q_proj.weight": drawn(queries, n_in),
        "self_attn.k_proj.weight": drawn(32, n_in, seed=1),
        "self_attn.v_proj.weight": drawn(32, n_in, seed=2),
        "self_attn.o_proj.weight": drawn(width, queries),
        "mlp.gate_proj.weight": drawn(inner, width),
        "mlp.up_proj.weight": drawn(inner, width, seed=1),
        "mlp.down_proj.weight": drawn(width, inner),
        "input_layernorm.weight": torch.ones(width),
        "post_attention_layernorm.weight": torch.ones(width),
    }
    if bias:
        tensors |= {f"self_attn.{name}_proj.bias": drawn(n) for name, n in (("q", queries), ("k", 32), ("v", 32))}
    return tensors


def save_eagle(folder: Path, *, is_parallel: bool = False) -> None:
    """The public layout; some ids of the draft's vocabulary lie elsewhere in the target's."""
    layer = {f"midlayer.{name}": one for name, one in layer_tensors(64, 48, 128, bias=False).items()}
    targets = torch.randperm(VOCAB, generator=torch.Generator().manual_seed(1))[:300].sort().values
    tensors = layer | {
        "midlayer.hidden_norm.weight": torch.ones(64),
        "fc.weight": drawn(64, 3 * WIDTH),
        "norm.weight": torch.ones(64),
        "lm_head.weight": drawn(300, 64),
        "embed_tokens.weight": drawn(VOCAB, 64),
        "d2t": targets - torch.arange(300),
        "t2d": torch.isin(torch.arange(VOCAB), targets),
    }
    more = {"parallel_drafting": True, "ptd_token_id": 7, "num_speculative_tokens": 5} if is_parallel else {}
    if is_parallel:
        tensors["mask_hidden"] = drawn(1, 3 * WIDTH)
    write_head(folder, EAGLE | more, tensors)


def save_mtp(folder: Path, prefix: str) -> None:
    names = {
        "mtp.": ("fc", "pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm", "layers.0."),
        "model.mtp_layers.0.": ("input_proj", "token_layernorm", "hidden_layernorm", "final_layernorm", ""),
        "model.layers.2.": ("eh_proj", "enorm", "hnorm", "shared_head.norm", ""),
    }
    joined, words, states, norm, block = names[prefix]
    tensors = {f"{block}{name}": one for name, one in layer_tensors(WIDTH, WIDTH, WIDTH, bias=True).items()}
    tensors |= {f"{joined}.weight": drawn(WIDTH, 2 * WIDTH)}
    tensors |= {f"{name}.weight": torch.ones(WIDTH) for name in (words, states, norm)}
    if prefix == "model.layers.2.":
        tensors["embed_tokens.weight"] = drawn(VOCAB, WIDTH)  # as published: shared with the model
    write_head(folder, {}, {prefix + name: one for name, one in tensors.items()})


def save_medusa(folder: Path) -> None:
    tensors = {f"{k}.0.linear.weight": drawn(WIDTH, WIDTH, seed=k) for k in range(3)}
    tensors |= {f"{k}.0.linear.bias": drawn(WIDTH, seed=k) for k in range(3)}
    write_head(folder, {}, tensors | {f"{k}.1.weight": drawn(VOCAB, WIDTH, seed=k) for k in range(3)})


def make_head(kind: str, folder: Path, engine: TorchEngine) -> DraftHead:
    if kind == "medusa":
        save_medusa(folder)
    elif kind in ("eagle3", "p_eagle"):
        save_eagle(folder, is_parallel=kind == "p_eagle")
    elif kind != "self_speculation":
        save_mtp(folder, kind)
    name = {"p_eagle": "eagle3"}.get(kind, "mtp" if kind.startswith("m") and kind != "medusa" else kind)
    return open_head(name, engine, folder, folder)


def make_engine(dtype: torch.dtype = torch.float32, **options: Any) -> TorchEngine:
    return TorchEngine(tiny_model("qwen2", dtype=dtype), name="target", buckets=(4, 8, 16), **options)


def context(head: DraftHead | None, sampling: SamplingParams, prompt: Sequence[int] = PROMPT) -> DraftContext:
    sources = PlainBytes().encode_sources(job("", "", ""))
    return DraftContext(sources, prompt, max_new_tokens=40, sampling=sampling, head=head)


def decoding(engine: TorchEngine, head: DraftHead | None, name: str = "", *, temperature: float = 0.0) -> Decoding:
    sampling = SamplingParams(temperature, 5)
    drafter = NoDraft() if head is None else open_drafter(name or head.name, context(head, sampling))
    return Decoding(engine, PROMPT, drafter, 40, frozenset(), sampling)


def decode(made: Decoding) -> Decoding:
    for _ in decode_alone(made):
        pass
    return made


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("kind", KINDS)
def test_the_law_holds(kind: str, temperature: float, tmp_path: Path) -> None:
    """Greedy and sampled, alone and behind the others, in float64: not one id differs from plain decoding."""
    engine = make_engine(torch.float64)
    plain = decode(decoding(engine, None, temperature=temperature)).output_ids
    head = make_head(kind, tmp_path, engine)
    for name in (head.name, f"merged_edit+suffix+{head.name}"):
        drafted = decode(decoding(engine, head, name, temperature=temperature))
        assert drafted.output_ids == plain
        assert drafted.stats.drafted_tokens > 0
    engine.check_integrity()


@pytest.mark.parametrize("kind", ["eagle3", "p_eagle", "mtp.", "medusa"])
def test_sequences_that_share_passes_are_drafted_for_apart(kind: str, tmp_path: Path) -> None:
    engine = make_engine(prefix_cache_bytes=2**20)
    alone = [decode(decoding(engine, None, temperature=t)).output_ids for t in (0.0, 0.8)]
    head = make_head(kind, tmp_path, engine)
    engine = head.engine  # type: ignore[attr-defined]
    for _ in range(2):  # the second time the prompt comes from the prefix cache, states included
        running = [decoding(engine, head, temperature=t) for t in (0.0, 0.8)]
        scheduler = Scheduler()
        while active := [one for one in running if one.finish_reason is None]:
            scheduler.run_pass(active)
        assert [one.output_ids for one in running] == alone
        assert all(one.stats.drafted_tokens > 0 for one in running)
    assert running[0].stats.cached_prompt_tokens > 0


@pytest.mark.parametrize("kind", ["eagle3", "p_eagle", "mtp.", "model.mtp_layers.0.", "model.layers.2."])
def test_what_a_head_kept_is_what_it_would_read_afresh(kind: str, tmp_path: Path) -> None:
    """After any mix of accepted and rejected drafts its keys and values are those of the target's own states."""
    engine = make_engine(torch.float64)
    head = make_head(kind, tmp_path, engine)
    made = decoding(engine, head, temperature=0.5)
    steps = decode_alone(made)
    drafter: Any = made.drafter
    for _ in range(9):
        next(steps)
        session = made.session
        assert session is not None
        kept = list(drafter.write(made.output_ids, 4))
        next(drafter.write(made.output_ids, 4))  # one that is left after its first token
        assert kept == list(head.open(session, SamplingParams(0.5, 5)).write(made.output_ids, 4))
        assert len(kept) == 4
    steps.close()


def test_the_states_of_a_session_are_those_of_the_library(tmp_path: Path) -> None:
    engine = make_engine(torch.float64)
    make_head("eagle3", tmp_path, engine)
    made = decoding(engine, None)
    steps = decode_alone(made)
    for _ in range(5):
        next(steps)
    assert made.session is not None
    n_read = made.session.length
    found = engine.states(made.session, 0, n_read)
    library = tiny_model("qwen2", dtype=torch.float64, attention="eager")
    ids = torch.tensor([[*PROMPT, *made.output_ids][:n_read]])
    with torch.inference_mode():
        wanted = library(ids, output_hidden_states=True).hidden_states
    torch.testing.assert_close(found, torch.cat([one[0] for one in wanted], -1), rtol=1e-4, atol=1e-5)
    steps.close()


def test_an_eagle_head_computes_what_its_paper_says(tmp_path: Path) -> None:
    """One pair after the other, by hand: no cache, plain softmax, rotary positions from 0."""
    engine = make_engine(torch.float64)
    head: Any = make_head("eagle3", tmp_path, engine)
    made = decoding(engine, None)
    steps = decode_alone(made)
    next(steps)
    session = made.session
    assert session is not None
    features = head.fuse(engine.states(session, 0, session.length))
    ids = [*PROMPT, *made.output_ids][1 : session.length + 1]
    layer, attention = head.midlayer, head.midlayer.self_attn
    both = torch.cat([layer.input_layernorm(head.embed_tokens(torch.tensor(ids))), layer.hidden_norm(features)], -1)

    def turned(rows: torch.Tensor, n_heads: int) -> torch.Tensor:
        rows = rows.view(len(rows), n_heads, 16).transpose(0, 1)
        angles = torch.arange(rows.shape[1])[:, None] * 10_000.0 ** -(torch.arange(0, 16, 2) / 16)
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        return rows * cos + torch.cat([-rows[..., 8:], rows[..., :8]], -1) * sin

    queries, keys = turned(attention.q_proj(both), 4), turned(attention.k_proj(both), 2).repeat_interleave(2, 0)
    values = attention.v_proj(both).view(-1, 2, 16).transpose(0, 1).repeat_interleave(2, 0)
    scores = queries @ keys.transpose(1, 2) / 4
    weights = scores.masked_fill(torch.ones_like(scores[0]).triu(1).bool(), -torch.inf).softmax(-1)
    mixed = features + attention.o_proj((weights @ values).transpose(0, 1).reshape(len(ids), 64))
    out = mixed + layer.mlp(layer.post_attention_layernorm(mixed))
    best = int(head.lm_head(head.norm(out))[-1].argmax())
    offsets = head.targets
    assert list(head.open(session, SamplingParams()).write(made.output_ids, 1)) == [int(offsets[best])]
    steps.close()


def test_an_exit_that_agrees_is_found_and_never_rejected() -> None:
    """The last layer of this model adds nothing."""
    model = tiny_model("qwen2")
    with torch.no_grad():
        model.base_model.layers[-1].self_attn.o_proj.weight.zero_()
        model.base_model.layers[-1].mlp.down_proj.weight.zero_()
    engine = TorchEngine(model, name="target", buckets=(4, 8, 16))
    made = decode(decoding(engine, open_head("self_speculation", engine, Path(), None)))
    assert made.stats.rejections == 0
    assert made.stats.passes < 20
    engine.check_integrity()


def test_medusa_heads_that_add_nothing_say_what_the_target_said(tmp_path: Path) -> None:
    write_head(tmp_path, {}, {"medusa_head.0.0.linear.weight": torch.zeros(WIDTH, WIDTH)})
    engine = make_engine()
    head = open_head("medusa", engine, tmp_path, tmp_path)
    made = decoding(engine, None)
    steps = decode_alone(made)
    for _ in range(4):
        next(steps)
    assert made.session is not None
    assert list(head.open(made.session, SamplingParams()).write(made.output_ids, 3)) == made.output_ids[-1:]
    steps.close()


def spoilt(save: Callable[[Path], None], change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    from safetensors.torch import load_file

    def act(folder: Path) -> None:
        save(folder)
        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return act


@pytest.mark.parametrize(
    ("name", "save", "says"),
    [
        ("eagle3", lambda folder: folder.mkdir(exist_ok=True), "no weights"),
        ("eagle3", spoilt(save_eagle, lambda tensors: tensors.pop("fc.weight")), "do not fit"),
        ("eagle3", spoilt(save_eagle, lambda tensors: tensors.update({"fc.weight": drawn(64, 3)})), "do not fit"),
        ("medusa", save_eagle, "no Medusa heads"),
        ("mtp", save_medusa, "ships no prediction layers"),
        ("mtp", spoilt(lambda f: save_mtp(f, "mtp."), lambda tensors: tensors.pop("mtp.norm.weight")), "do not fit"),
    ],
)
def test_files_that_do_not_fit_are_refused(name: str, save: Callable[[Path], None], says: str, tmp_path: Path) -> None:
    save(tmp_path)
    with pytest.raises(ModelNotLoadable, match=says):
        open_head(name, make_engine(), tmp_path, tmp_path)


def test_a_head_for_layers_that_are_not_there_is_refused(tmp_path: Path) -> None:
    save_eagle(tmp_path)
    config = EAGLE | {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 9]}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelNotLoadable, match="layers"):
        open_head("eagle3", make_engine(), tmp_path, tmp_path)


def test_a_model_without_the_head_is_told_so() -> None:
    with pytest.raises(UnsupportedParameter, match="no head"):
        open_drafter("merged_edit+eagle3", context(None, SamplingParams()))

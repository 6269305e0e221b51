"""The kernels compile for the devices that they are meant for; no device is needed for that."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch

from apply_service.engine.attention import TileShape

triton = pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="kernels are interpreted")

HOPPER = ("cuda", 90, 32)
SHARED_BYTES = 227 * 1024
"""What one program may have on that device."""
NAMES = {torch.bfloat16: "bf16", torch.float32: "fp32"}


def compiled(kernel: Any, types: dict[str, str], constants: dict[str, Any], **options: int) -> Any:
    """The kernel for arguments of these types; pointers and strides are multiples of 16, as they are in use."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = kernel.arg_names
    signature = {name: types.get(name, "constexpr") for name in names}
    aligned = {
        (i,): [["tt.divisibility", 16]]
        for i, name in enumerate(names)
        if types.get(name, "").startswith("*") or name.endswith("_stride")
    }
    values = {(names.index(name),): value for name, value in constants.items()}
    return triton.compile(ASTSource(kernel, signature, values, aligned), target=GPUTarget(*HOPPER), options=options)


@pytest.mark.parametrize(
    ("dim", "group", "dtype", "is_sliding"),
    [(128, 7, torch.bfloat16, False), (256, 2, torch.bfloat16, True), (64, 3, torch.float32, False)],
    ids=str,
)
def test_attention(dim: int, group: int, dtype: torch.dtype, is_sliding: bool) -> None:
    """On the tensor cores of warp groups, within the shared memory of a program."""
    from apply_service.engine import triton_attention

    tile, name = TileShape.for_model(dim, group, dtype), NAMES[dtype]
    sizes = {"block_rows": tile.rows, "block_keys": tile.keys, "split": tile.split}
    flags = {"is_capped": is_sliding, "is_sliding": is_sliding, "is_widened": False}
    precision = "ieee" if dtype == torch.float32 else "tf32"
    pointers = dict.fromkeys(("query", "keys", "values"), f"*{name}")
    pointers |= dict.fromkeys(("partial", "peaks", "sums"), "*fp32") | {"positions": "*i64", "tiles": "*i64"}
    numbers = ("n_rows", "n_heads", "row_stride", "head_stride", "slot_stride", "pool_stride", "window")
    made = compiled(
        triton_attention._attend_split,
        {**pointers, **dict.fromkeys(numbers, "i32"), "scale": "fp32", "cap": "fp32"},
        {"group": group, "dim": dim, "block_dim": dim, "precision": precision, **sizes, **flags},
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    assert made.asm["cubin"]
    assert made.metadata.shared <= SHARED_BYTES
    assert ("wgmma.mma_async" in made.asm["ptx"]) == (dtype == torch.bfloat16)


def test_the_small_kernels() -> None:
    from apply_service.engine import triton_attention, triton_kernels

    tables = {"positions": "*i64", "slots": "*i64", "n_rows": "i32", "n_heads": "i32", "window": "i32"}
    sums = dict.fromkeys(("partial", "peaks", "sums"), "*fp32")
    shape = {"group": 7, "block_group": 8, "dim": 128, "block_dim": 128, "split": 512, "is_sliding": False}
    rows = dict.fromkeys(("key", "value", "keys", "values"), "*bf16") | {"slots": "*i64"}
    names = ("row_stride", "head_stride", "value_row_stride", "value_head_stride", "slot_stride", "pool_stride")
    strides = dict.fromkeys(names, "i32")
    found = {"peaks": "*fp32", "places": "*i64", "sums": "*fp32", "n_blocks": "i32"}
    for made in (
        compiled(triton_attention._join_splits, {**sums, "out": "*bf16", **tables}, shape),
        compiled(triton_attention._store_rows, {**rows, **strides}, {"n_heads": 4, "dim": 96, "block_dim": 128}),
        compiled(
            triton_kernels._best_of_block,
            {"logits": "*bf16", **found, "n_vocab": "i32", "row_stride": "i32"},
            {"block": triton_kernels.CHOICE_BLOCK},
        ),
        compiled(
            triton_kernels._normalise,
            {
                **dict.fromkeys(("x", "weight", "out"), "*bf16"),
                "n_columns": "i32",
                "row_stride": "i32",
                "epsilon": "fp32",
            },
            {"block": 4096},
        ),
        compiled(triton_kernels._best_of_row, {**found, "choices": "*i64", "logprobs": "*fp32"}, {"width": 64}),
    ):
        assert made.asm["cubin"]

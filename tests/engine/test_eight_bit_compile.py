"""The kernels of 8-bit weights compile for a Hopper GPU; no device is needed for that."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("triton", reason="Triton is not installed")
pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="kernels are interpreted")

SHARED_BYTES = 227 * 1024
"""What one program may have on that device."""


@pytest.mark.parametrize(("n_columns", "n_warps"), [(3_584, 8), (28_672, 16)])
def test_rows_of_activations(n_columns: int, n_warps: int) -> None:
    from apply_service.engine import triton_kernels
    from apply_service.engine.eight_bit import LEAST_SCALE, LIMITS
    from tests.engine.test_triton_compile import compiled

    types = {"x": "*bf16", "values": "*fp8e4nv", "scales": "*fp32", "n_columns": "i32", "stride": "i32"}
    block = 1 << (n_columns - 1).bit_length()
    constants = {"limit": LIMITS["fp8"], "least": LEAST_SCALE, "block": block}
    made = compiled(triton_kernels._quantise, types, constants, num_warps=n_warps)
    assert made.asm["cubin"]
    assert made.metadata.shared <= SHARED_BYTES
    assert "e4m3x2" in made.asm["ptx"]  # the device's own conversion, which rounds to nearest


def test_scaling_of_products() -> None:
    from apply_service.engine import triton_kernels
    from tests.engine.test_triton_compile import compiled

    types = dict.fromkeys(("product", "row_scales", "column_scales"), "*fp32") | {"bias": "*bf16", "out": "*bf16"}
    numbers = dict.fromkeys(("n_columns", "stride"), "i32")
    constants = {"has_bias": True, "block": triton_kernels.SCALED_COLUMNS}
    assert compiled(triton_kernels._scale, types | numbers, constants, num_warps=8).asm["cubin"]


@pytest.mark.parametrize("block_rows", [16, 64])
def test_products_with_int8_weights(block_rows: int) -> None:
    from apply_service.engine import triton_kernels
    from tests.engine.test_triton_compile import compiled

    types = {"x": "*bf16", "weights": "*i8", "scales": "*fp32", "bias": "*bf16", "out": "*bf16"}
    numbers = dict.fromkeys(("n_rows", "n_out", "stride"), "i32")
    sizes = {
        "block_rows": block_rows,
        "block_out": triton_kernels.INT8_OUT,
        "block_columns": triton_kernels.INT8_COLUMNS,
    }
    constants = {"n_columns": 3_584, "has_bias": True, **sizes}
    made = compiled(triton_kernels._multiply, types | numbers, constants)
    assert made.asm["cubin"]
    assert made.metadata.shared <= SHARED_BYTES
    assert "mma" in made.asm["ptx"]

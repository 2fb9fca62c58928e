"""Run by `test_snake_triton.py`: compile for a card that is not here, and read the code."""

from __future__ import annotations

import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from dac_rocm.ops.snake_triton import BLOCK, snake_kernel

backend, arch = sys.argv[1].split(":")
target = GPUTarget("cuda", int(arch), 32) if backend == "cuda" else GPUTarget("hip", arch, 64)
if arch.startswith("gfx1"):
    target = GPUTarget("hip", arch, 32)
NAMES = snake_kernel.arg_names
POINTERS = ("x", "out", "alpha", "beta")
DENSE = {
    "first": ("x_t", "out_t", "alpha_c", "beta_c"),
    "last": ("x_c", "out_c", "alpha_c", "beta_c"),
}
BLOCKS = {"first": (1, BLOCK), "last": (128, BLOCK // 128)}
WIDE_LOAD = {"cuda": ("ld.global.v4",), "hip": ("load_dwordx4", "load_b128", "load_dwordx2")}


def compiled(order, dtype):
    """Compile for a memory order, with the hints that Triton derives from a dense tensor."""
    signature = dict.fromkeys(NAMES, "i32") | dict.fromkeys(POINTERS, f"*{dtype}")
    constants = dict.fromkeys(DENSE[order], 1)
    constants |= dict(zip(("BLOCK_C", "BLOCK_T"), BLOCKS[order], strict=True))
    signature |= dict.fromkeys(constants, "constexpr")
    hints = {
        (i,): [["tt.divisibility", 16]] for i, name in enumerate(NAMES) if name not in constants
    }
    source = ASTSource(snake_kernel, signature, constants, hints)
    code = triton.compile(source, target=target).asm
    return code["ptx" if backend == "cuda" else "amdgcn"]


for order in DENSE:
    for dtype in ("fp32", "bf16"):
        text = compiled(order, dtype)
        assert "sin.approx" not in text and "v_sin_f" not in text
        if dtype == "fp32" or backend == "cuda":
            assert any(name in text for name in WIDE_LOAD[backend]), (order, dtype)

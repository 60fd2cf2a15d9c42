"""SIMD: lanes, their LLVM instructions, and rows processed in them."""

"""Several numbers at once: lanes, their LLVM instructions, and rows walked in them."""

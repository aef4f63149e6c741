"""Julia in this process: its library, expressions, and the addresses of its functions.

Nothing is copied between both languages: functions get the addresses of numpy's arrays. A C-ordered
array (N, C, H, W) is Julia's array (W, H, C, N).
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

from ...programs import ask
from ...protocol import Array

JULIA = "DLSUITE_JULIA"  # the variable that names another julia
ANSWER_S = 60.0
# The library that julia has loaded, its folder, and its system image.
WHERE = """
using Libdl
println(first(filter(path -> occursin("libjulia.", path), Libdl.dllist())))
println(Sys.BINDIR)
println(unsafe_string(Base.JLOptions().image_file))
"""


class Julia:
    """The one Julia of this process, with a number of threads for its BLAS.

    Raise RuntimeError where Julia is missing, and where an expression fails.
    """

    def __init__(self, threads: int | None) -> None:
        # Julia's own threads and those of its BLAS multiply.
        os.environ["JULIA_NUM_THREADS"] = "1"
        answer = ask([os.environ.get(JULIA, "julia"), "-e", WHERE], timeout_s=ANSWER_S)
        if answer.problem:
            raise RuntimeError(f"Flux needs Julia: {answer.problem}")
        library, folder, image = answer.output.splitlines()
        self._library = ctypes.PyDLL(library, mode=ctypes.RTLD_GLOBAL)
        # The name differs between Julia 1.5 and later ones.
        name = "jl_init_with_image"
        start = getattr(self._library, f"{name}__threading", None) or getattr(self._library, name)
        start.argtypes, start.restype = [ctypes.c_char_p, ctypes.c_char_p], None
        start(folder.encode(), image.encode())
        self._library.jl_eval_string.restype = ctypes.c_void_p
        self._library.jl_unbox_voidpointer.restype = ctypes.c_void_p
        self._library.jl_unbox_voidpointer.argtypes = [ctypes.c_void_p]
        self.run(f'include("{Path(__file__).with_name("flux.jl")}")')
        if threads is not None:
            self.run(f"Work.threads({threads})")

    def run(self, code: str) -> Any:
        """Evaluate an expression; return the address of its value, of which Julia may dispose."""
        guarded = (
            f"try; global result = ({code}); global problem = nothing;"
            " catch error; global problem = sprint(showerror, error); end; result"
        )
        self._library.jl_eval_string(b"global result = nothing")
        value = self._library.jl_eval_string(guarded.encode())
        if problem := self.text('problem === nothing ? "" : problem'):
            raise RuntimeError(f"Julia: {problem.splitlines()[0]}")
        return value

    def text(self, code: str) -> str:
        """The text that an expression is."""
        self._library.jl_string_ptr.restype = ctypes.c_char_p
        self._library.jl_string_ptr.argtypes = [ctypes.c_void_p]
        found = self._library.jl_string_ptr(
            self._library.jl_eval_string(f"string({code})".encode())
        )
        return bytes(found or b"").decode(errors="replace")

    def function(self, code: str, result: Any, *arguments: Any) -> Any:
        """A function of Julia, whose address is the value of `code`."""
        address = self._library.jl_unbox_voidpointer(self.run(code))
        return ctypes.PYFUNCTYPE(result, *arguments)(address)


def address(values: Array) -> ctypes.c_void_p:
    """The address of an array's first value."""
    return ctypes.c_void_p(values.ctypes.data)

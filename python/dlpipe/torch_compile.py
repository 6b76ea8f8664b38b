"""The backend "dlpipe" of torch.compile: models in f32 train on dlpipe's CPU kernels.

    model = torch.compile(model, backend="dlpipe")

An installed dlpipe is found by that name (the entry point group torch_dynamo_backends). AOTAutograd traces the model's
forward and backward into graphs of ATen's ops; each op runs on a kernel of dlpipe (`torch_kernels.py`), or, where there is
none, on PyTorch as ever (`torch_plan.py`). Losses are those of eager within f32's rounding, not its bits. Kernels take
torch.get_num_threads() threads.

The first call of a compiled graph runs it both ways, on copies of its inputs, and the graph keeps the faster one for as long as
it lives: dlpipe's, or eager as it stands (`torch_choice.py`). options={"fallback": False} keeps dlpipe's.
"""

import os
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch._guards import TracingContext
from torch.fx import GraphModule

from dlpipe.errors import MisuseError
from dlpipe.torch_choice import Faster
from dlpipe.torch_plan import Plan


def _boxed(plan: Plan) -> Callable[[List[Any]], List[Any]]:
    """As AOTAutograd calls it: with a list that is emptied, so that inputs die where they were read last."""

    def run(inputs: List[Any]) -> List[Any]:
        return plan(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _forward(module: GraphModule, _: Sequence[Any]) -> Callable[[List[Any]], List[Any]]:
    context = TracingContext.try_get()
    metadata = context.fw_metadata if context is not None else None
    return _boxed(Plan(module, None if metadata is None else metadata.num_forward))


def _whole(module: GraphModule, _: Sequence[Any]) -> Callable[[List[Any]], List[Any]]:
    return _boxed(Plan(module, None))


def _may_fall_back(options: Optional[Dict[str, Any]]) -> bool:
    options = {} if options is None else options
    unknown = [name for name in options if name != "fallback"]
    if unknown or not isinstance(options.get("fallback", True), bool):
        said = f"no option {unknown[0]!r}" if unknown else f"fallback is {options['fallback']!r}"
        raise MisuseError(f"[torch_compile] {said}; give options={{'fallback': False}} to keep dlpipe's kernels where eager is faster")
    return bool(options.get("fallback", True)) and os.environ.get("DLPIPE_KERNELS") != "rules"


def backend(
    module: GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: Optional[str] = None,
    options: Optional[Dict[str, Any]] = None,
) -> Callable[..., Any]:
    """What torch.compile calls with a graph; `torch.compile(model, backend=dlpipe.torch_compile.backend)` works, too."""
    if mode is not None:  # torch.compile keeps "default" to itself
        raise MisuseError(f"[torch_compile] mode={mode!r} is inductor's, and the backend dlpipe has no modes; leave it out")
    may_fall_back = _may_fall_back(options)
    # Mutated inputs, such as batch norm's statistics, are written in the graph: a checkpointed block's are read again by the
    # backward graph, and AOTAutograd's own writes come behind the moment at which autograd notes their versions.
    compiler = aot_autograd(
        fw_compiler=_forward, bw_compiler=_whole, inference_compiler=_whole, keep_inference_input_mutations=True
    )
    compiled = compiler(module, example_inputs)
    return Faster(compiled, module) if may_fall_back else compiled


def register() -> None:
    """Makes the name known where dlpipe isn't installed but lies on sys.path. Any number of times.

    Where PyTorch has found the entry point, it registers what it loads from there itself, and twice is an error."""
    from torch._dynamo.backends import registry

    if registry._COMPILER_FNS.get("dlpipe") is None and registry._BACKENDS.get("dlpipe") is None:
        register_backend(compiler_fn=backend, name="dlpipe")

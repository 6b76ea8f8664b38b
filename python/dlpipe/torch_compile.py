"""The backend "dlpipe" of torch.compile: models in f32 train on dlpipe's CPU kernels.

    model = torch.compile(model, backend="dlpipe")

An installed dlpipe is found by that name (the entry point group torch_dynamo_backends). AOTAutograd traces the model's
forward and backward into graphs of ATen's ops; each op runs on a kernel of dlpipe (`torch_kernels.py`), or, where there is
none, on PyTorch as ever (`torch_plan.py`). Losses are those of eager within f32's rounding, not its bits. Kernels take
torch.get_num_threads() threads.
"""

from typing import Any, Callable, List, Sequence

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch._guards import TracingContext
from torch.fx import GraphModule

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


def backend(module: GraphModule, example_inputs: Sequence[torch.Tensor]) -> Callable[..., Any]:
    """What torch.compile calls with a graph; `torch.compile(model, backend=dlpipe.torch_compile.backend)` works, too."""
    compiler = aot_autograd(fw_compiler=_forward, bw_compiler=_whole, inference_compiler=_whole)
    return compiler(module, example_inputs)


def register() -> None:
    """Makes the name known where dlpipe isn't installed but lies on sys.path. Any number of times.

    Where PyTorch has found the entry point, it registers what it loads from there itself, and twice is an error."""
    from torch._dynamo.backends import registry

    if registry._COMPILER_FNS.get("dlpipe") is None and registry._BACKENDS.get("dlpipe") is None:
        register_backend(compiler_fn=backend, name="dlpipe")

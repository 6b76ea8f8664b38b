"""The backend "dlpipe" of torch.compile: f32 models train on dlpipe's CPU kernels.

    model = torch.compile(model, backend="dlpipe")

torch.compile finds an installed dlpipe by that name (the entry point group torch_dynamo_backends). AOTAutograd traces the
model's forward and backward into graphs of ATen's ops. Each op runs on a kernel of dlpipe (`torch_kernels.py`), or in
PyTorch if there is none (`torch_plan.py`). Losses equal those of eager within f32 rounding, but not bit for bit. Kernels use
torch.get_num_threads() threads.

The first call of a compiled graph runs it both ways, on copies of its inputs. The graph then uses the faster way for the rest of
its life: dlpipe's kernels or unchanged eager. options={"fallback": False} always uses dlpipe's.
"""

import logging
import os
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.registry import register_backend
from torch._guards import TracingContext
from torch.fx import GraphModule

from dlpipe.errors import MisuseError
from dlpipe.torch_plan import Plan


def _boxed(plan: Plan) -> Callable[[List[Any]], List[Any]]:
    """AOTAutograd's calling convention: the plan empties the list of inputs, so that each is freed after its last use."""

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
        raise MisuseError(f"[torch_compile] {said}; give options={{'fallback': False}} to use dlpipe's kernels even if eager is faster")
    return bool(options.get("fallback", True)) and os.environ.get("DLPIPE_KERNELS") != "rules"


def backend(
    module: GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: Optional[str] = None,
    options: Optional[Dict[str, Any]] = None,
) -> Callable[..., Any]:
    """torch.compile calls this with a graph. `torch.compile(model, backend=dlpipe.torch_compile.backend)` works, too."""
    if mode is not None:  # torch.compile doesn't pass "default" on
        raise MisuseError(f"[torch_compile] mode={mode!r} is inductor's, but the backend dlpipe has no modes; leave it out")
    may_fall_back = _may_fall_back(options)
    # The graph itself writes mutated inputs, such as batch norm's statistics: the backward graph of a checkpointed block reads
    # them again, and AOTAutograd's own writes would come after autograd has recorded their versions.
    compiler = aot_autograd(
        fw_compiler=_forward, bw_compiler=_whole, inference_compiler=_whole, keep_inference_input_mutations=True
    )
    compiled = compiler(module, example_inputs)
    return Faster(compiled, module) if may_fall_back else compiled


def register() -> None:
    """Registers the backend if dlpipe isn't installed but is on sys.path. May be called any number of times.

    If PyTorch has found the entry point, it registers the backend itself, and a second registration would be an error."""
    from torch._dynamo.backends import registry

    if registry._COMPILER_FNS.get("dlpipe") is None and registry._BACKENDS.get("dlpipe") is None:
        register_backend(compiler_fn=backend, name="dlpipe")


# ---- choosing how a compiled graph runs: on dlpipe's kernels or in eager, whichever is faster


_ROUNDS = 5
_SECONDS = 2.0  # start no further round after this time
_LONG_SECONDS = 1.0
_is_said = False  # whether the warning that choosing takes long was logged


class Faster:
    """A graph. Its first call times both ways, forward and, if gradients are wanted, backward, on copies of the inputs. All
    calls then use the faster way, so that all results of a graph come from the same one."""

    def __init__(self, compiled: Callable[..., Any], module: GraphModule) -> None:
        self._compiled = compiled
        self._module = module
        self._chosen: Optional[Callable[..., Any]] = None

    def __call__(self, *inputs: Any) -> Any:
        if self._chosen is None:
            self._chosen = self._choose(inputs)
        return self._chosen(*inputs)

    def _choose(self, inputs: Tuple[Any, ...]) -> Callable[..., Any]:
        if not _can_be_copied(inputs) or _talks_to_ranks(self._module):
            return self._compiled
        eager_way = self._module.forward
        ways = (self._compiled, eager_way)
        begin = time.perf_counter()
        # The trials don't change the state of the random numbers, and the user's hooks don't see them (checkpoints outside of the
        # graph count saved tensors).
        with torch.random.fork_rng(devices=[]), torch.autograd.graph.saved_tensors_hooks(_as_it_is, _as_it_is):
            for way in ways:  # the first call compiles, and measures single ops
                seconds(way, inputs)
                _say_if_long(time.perf_counter() - begin)
            best = [float("inf"), float("inf")]
            begin = time.perf_counter()
            for _ in range(_ROUNDS):
                best = [min(before, seconds(way, inputs)) for before, way in zip(best, ways)]
                if time.perf_counter() - begin > _SECONDS:
                    break
        ours, eager = best
        nodes = sum(node.op.startswith("call_") for node in self._module.graph.nodes)
        logging.getLogger("dlpipe").info(
            "[torch_compile] a graph of %d calls takes %.2f ms on dlpipe's kernels and %.2f ms in eager; it runs %s",
            nodes, ours * 1e3, eager * 1e3, "on dlpipe's" if ours <= eager else "in eager")  # fmt: skip
        return self._compiled if ours <= eager else eager_way


def _say_if_long(so_far: float) -> None:
    """Logs a warning, once per process."""
    global _is_said
    if so_far < _LONG_SECONDS or _is_said:
        return
    _is_said = True
    logging.getLogger("dlpipe").warning(
        "[torch_compile] timing dlpipe's kernels against eager at the first call of each compiled graph, to choose the faster; "
        "options={'fallback': False} skips this")  # fmt: skip


def _talks_to_ranks(module: GraphModule) -> bool:
    """Whether a call is a collective. Ranks choose independently, and their trials would exchange the copies of the inputs."""
    graphs = [part.graph for part in module.modules() if isinstance(part, GraphModule)]
    return any("c10d" in str(node.target) for graph in graphs for node in graph.nodes if node.op == "call_function")


def _as_it_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _can_be_copied(inputs: Tuple[Any, ...]) -> bool:
    """Whether copies can replace the inputs: plain CPU tensors that don't share memory with each other."""
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    plain = all(type(each) in (torch.Tensor, torch.nn.Parameter) and each.layout is torch.strided for each in tensors)
    if not plain or any(each.device.type != "cpu" for each in tensors):
        return False
    memories = [each.untyped_storage().data_ptr() for each in tensors if each.numel() > 0]
    return len(set(memories)) == len(memories)


def _copy(value: Any, leaves: List[torch.Tensor]) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    copy = value.detach().clone()
    if not value.requires_grad:
        return copy
    leaves.append(copy.requires_grad_())
    return copy if value.is_leaf else copy.clone()  # only non-leaves may be changed in place


def seconds(way: Callable[..., Any], inputs: Tuple[Any, ...]) -> float:
    """Seconds of one call, including the gradients of all inputs that require them."""
    leaves: List[torch.Tensor] = []
    with torch.enable_grad():
        copies = [_copy(value, leaves) for value in inputs]
    begin = time.perf_counter()
    outputs = [each for each in way(*copies) if isinstance(each, torch.Tensor) and each.requires_grad]
    if outputs and leaves:
        torch.autograd.grad(outputs, leaves, [torch.ones_like(each) for each in outputs], allow_unused=True)
    return time.perf_counter() - begin

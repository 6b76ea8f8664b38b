"""Plans of graphs that are built here, without PyTorch's compiler: what their outputs are, and whose memory."""

import operator

import pytest

torch = pytest.importorskip("torch")
torch_plan = pytest.importorskip("dlpipe.torch_plan")

from torch.fx import Graph, GraphModule  # noqa: E402
from torch.fx.node import map_arg  # noqa: E402

aten = torch.ops.aten
# Sums of a convolution in another order.
TOLERANCE = dict(rtol=2e-3, atol=2e-4)


@pytest.fixture(autouse=True)
def kernels_by_rules(monkeypatch):
    """dlpipe's kernels wherever there is one: measurements would choose by chance."""
    monkeypatch.setenv("DLPIPE_KERNELS", "rules")
    torch.manual_seed(3)


class Traced:
    """A graph beside the values that PyTorch has for its nodes."""

    def __init__(self, *inputs):
        self.graph = Graph()
        self.inputs = inputs
        self.nodes = [self._node(self.graph.placeholder(f"x{i}"), value) for i, value in enumerate(inputs)]

    @staticmethod
    def _node(node, value):
        node.meta["val"] = value
        return node

    def call(self, op, *args):
        answer = op(*map_arg(args, lambda node: node.meta["val"]))
        return self._node(self.graph.call_function(op, args), answer)

    def convolution(self, x, weight):
        return self.call(aten.convolution.default, x, weight, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)

    def run(self, *outputs, public=None):
        self.graph.output(outputs)
        plan = torch_plan.Plan(GraphModule(torch.nn.Module(), self.graph), public)
        answers = plan(list(self.inputs))
        for answer, output in zip(answers, outputs):
            if answer.dim() == output.meta["val"].dim():  # else blocks of channels
                torch.testing.assert_close(answer, output.meta["val"], **TOLERANCE)
        return answers


def images(channels=3, size=8):
    """Plain [N,H,W,C], which becomes [N,C,H,W] without a copy: `channels` is no multiple of a block."""
    return torch.randn(2, channels, size, size).to(memory_format=torch.channels_last)


def weights(out=5, channels=3, size=3):
    return torch.randn(out, channels, size, size).to(memory_format=torch.channels_last)


@torch.library.custom_op("dlpipe_tests::rows", mutates_args=())
def rows(x: torch.Tensor) -> torch.Tensor:
    """Reads memory as one that was compiled for the strides of the trace."""
    return x.as_strided((x.shape[0], 4), (x.stride(0), 1)).clone()


def memory(tensor):
    return tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("x, weight", [(torch.randn(2, 1, 8, 8), torch.randn(4, 1, 3, 3)), (images(), weights())],
                         ids=["one channel", "channels_last"])  # fmt: skip
def test_a_gradient_that_two_inputs_get_is_one_tensor(x, weight):
    """AccumulateGrad takes over a tensor that nobody else has: over the same memory the second one would be added twice."""
    traced = Traced(torch.randn(2, weight.shape[0], 6, 6), x, weight)
    both = traced.call(aten.convolution_backward.default, *traced.nodes, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1,
                       [True, False, False])  # fmt: skip
    gradient = traced.call(operator.getitem, both, 0)
    first, second = traced.run(gradient, gradient)
    assert first is second


@pytest.mark.parametrize("weight", [weights(), torch.randn(5, 3, 8, 8)], ids=["channels_last", "one pixel"])
@pytest.mark.parametrize("op", ["clone", "pool", "pool_gradient"])
def test_what_a_kernel_answers_as_it_came_is_a_copy_where_both_leave(op, weight):
    traced = Traced(images(), weight)
    made = traced.convolution(*traced.nodes)
    if op == "clone":
        same = traced.call(aten.clone.default, made)
    elif op == "pool":
        same = traced.call(aten._adaptive_avg_pool2d.default, made, list(made.meta["val"].shape[2:]))
    else:
        same = traced.call(aten._adaptive_avg_pool2d_backward.default, made, made)
    one, other = traced.run(made, same)
    assert memory(one) != memory(other)
    expected = other.clone()
    one.zero_()
    assert torch.equal(other, expected)


def test_a_copy_that_leaves_is_not_what_the_backward_graph_reads():
    traced = Traced(images(), weights())
    made = traced.convolution(*traced.nodes)
    given, saved = traced.run(traced.call(aten.clone.default, made), made, public=1)
    assert memory(given) != memory(saved)


def test_what_leaves_and_is_read_by_the_backward_graph_is_one_tensor():
    """A write to it is an error then, as in eager."""
    traced = Traced(images(), weights())
    made = traced.convolution(*traced.nodes)
    given, saved = traced.run(made, made, public=1)
    assert given is saved


def test_what_is_saved_detached_is_the_tensor_that_leaves():
    traced = Traced(images(), weights(size=8))
    made = traced.convolution(*traced.nodes)
    flat = traced.call(aten.view.default, made, [2, 5])
    seen, given, saved = traced.run(flat, made, traced.call(aten.detach.default, made), public=2)
    assert given is saved and seen is not saved


def test_a_view_that_is_saved_is_apart_from_what_leaves():
    """Autograd would not see that somebody writes to the one."""
    traced = Traced(images(), weights(size=8))
    made = traced.convolution(*traced.nodes)
    given, saved = traced.run(made, traced.call(aten.view.default, made, [2, 5]), public=1)
    assert memory(given) != memory(saved)


def test_views_stay_views():
    traced = Traced(images(), weights(size=8))
    made = traced.convolution(*traced.nodes)
    given, seen = traced.run(made, traced.call(aten.view.default, made, [2, 5]))
    assert memory(given) == memory(seen)


@pytest.mark.parametrize("pool", [False, True])
def test_outputs_can_be_changed_in_place(pool):
    """PyTorch refuses that for views that leave a compiled graph."""
    traced = Traced(images(), weights())
    made = traced.convolution(*traced.nodes)
    answer, = traced.run(traced.call(aten.mean.dim, made, [2, 3], True) if pool else made)
    assert not answer._is_view()


def test_a_gradient_that_came_in_is_not_what_goes_out():
    traced = Traced(images(), images())
    answer, = traced.run(traced.call(aten._adaptive_avg_pool2d_backward.default, *traced.nodes))
    assert memory(answer) != memory(traced.inputs[0])


BY_STRIDES = {
    "as_strided": lambda traced, x: traced.call(aten.as_strided.default, x, [2, 320], [320, 1]),
    "attention": lambda traced, x: traced.call(
        operator.getitem, traced.call(aten._scaled_dot_product_flash_attention_for_cpu.default, x, x, x), 0),
    "complex": lambda traced, x: traced.call(aten.view_as_real.default, traced.call(
        aten.view_as_complex.default, traced.call(aten.view.default, x, [2, 5, 8, 4, 2]))),
    "wider elements": lambda traced, x: traced.call(aten.view.dtype, traced.call(aten.view.dtype, x, torch.int64), torch.float32),
    "custom": lambda traced, x: traced.call(rows._opoverload, x),
    "pairs": lambda traced, x: traced.call(aten._pdist_forward.default, traced.call(aten.select.int, traced.call(
        aten.select.int, x, 0, 0), 0, 0), 2.0),
}  # fmt: skip


@pytest.mark.parametrize("between", [None, aten.sigmoid.default, aten.detach.default])
@pytest.mark.parametrize("op", BY_STRIDES)
def test_ops_that_read_by_strides_have_those_that_were_traced(op, between):
    """The graph was traced with contiguous images, and kernels answer others."""
    traced = Traced(torch.randn(2, 3, 8, 8), torch.randn(5, 3, 1, 1))
    made = traced.convolution(*traced.nodes)
    traced.run(BY_STRIDES[op](traced, traced.call(between, made) if between else made))  # it compares


def test_a_view_that_leaves_has_the_strides_that_were_traced():
    traced = Traced(torch.randn(2, 3, 8, 8), torch.randn(5, 3, 3, 3))
    made = traced.convolution(*traced.nodes)
    turned = traced.call(aten.permute.default, made, [0, 2, 3, 1])
    answer, = traced.run(turned)
    assert answer.stride() == turned.meta["val"].stride()


def test_shapes_that_a_kernel_refuses_are_pytorchs():
    traced = Traced(torch.randn(1), torch.randn(3, 4), torch.randn(5, 4), torch.randn(1, 1, 2, 1, 2, 1, 3))
    one, x, weight, deep = traced.nodes
    traced.run(traced.call(aten.addmm.default, one, x, traced.call(aten.t.default, weight)), traced.call(aten.gelu.default, deep))

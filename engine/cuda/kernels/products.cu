#include "engine/ops/products.h"

#include "dlpipe/ops.h"
#include "engine/cuda/gemm/gemm.h"
#include "engine/cuda/grid/elements.h"
#include "engine/cuda/kernels/activation.h"
#include "engine/cuda/loops/formula.h"
#include "engine/cuda/loops/strided.h"
#include "engine/cuda/loops/sums.h"
#include "engine/ops/window.h"

namespace dlpipe::engine::cuda {
inline namespace DLPIPE_GRID_NAMESPACE {

/// A block copies neighbours of one row. A thread copies every kThreads-th of them, because rows may begin anywhere.
template <class T>
struct CopyRows {
  static constexpr const char* kName = "rows to another pitch";
  static constexpr int kThreads = 256;
  static constexpr int kEach = 8;
  using Shared = NoShared;
  const T* from;
  int64_t from_pitch;
  T* to;
  int64_t to_pitch;
  int64_t columns;

  template <class Block>
  DLPIPE_DEVICE void operator()(Block& block, Shared&) const {
    const int64_t spans = (columns + kThreads * kEach - 1) / (kThreads * kEach);
    const int64_t row = block.index() / spans;
    const int64_t left = block.index() % spans * kThreads * kEach;
    block.each([&](int thread) {
      for (int i = 0; i < kEach; ++i) {
        const int64_t column = left + i * kThreads + thread;
        if (column < columns) to[row * to_pitch + column] = from[row * from_pitch + column];
      }
    });
  }
};

/// Elements from one row to the next if every row begins at a pack of bf16 or f16.
static int64_t aligned_pitch(int64_t columns) {
  return blocks_for(columns, kPackWidth<BFloat16>) * kPackWidth<BFloat16>;
}

/// Whether a product is faster with a copy that has aligned rows, if that fits in the GPU's memory. The product reads
/// rows many times, the copy once. Not for short rows, which would leave most of a block idle.
static bool is_better_aligned(DType dtype, int64_t rows, int64_t columns) {
  constexpr int64_t kLeast = int64_t{1} << 20;  // elements
  constexpr int64_t kLongRow = 1024;
  return is_low(dtype) && columns % kPackWidth<BFloat16> != 0 && columns >= kLongRow &&
         rows * columns >= kLeast;
}

/// Copies [rows, columns] of bf16 or f16.
static void copy_rows(const void* from, int64_t from_pitch, void* to, int64_t to_pitch, int64_t rows,
                      int64_t columns) {
  using Bits = uint16_t;
  using Kernel = CopyRows<Bits>;
  static_assert(sizeof(Bits) == sizeof(BFloat16) && sizeof(Bits) == sizeof(Float16));
  launch(Kernel{static_cast<const Bits*>(from), from_pitch, static_cast<Bits*>(to), to_pitch, columns},
         rows * blocks_for(columns, int64_t{Kernel::kThreads} * Kernel::kEach));
}

}  // namespace DLPIPE_GRID_NAMESPACE
}  // namespace dlpipe::engine::cuda

namespace dlpipe::engine {
namespace {

/// The matrices of a tensor, in the order of the output's matrices to which they belong.
struct Operand {
  const Tensor& tensor;
  const std::vector<int64_t>* matrix_of;  // null: the i-th for the i-th
  int64_t rows, columns;                  // in memory

  int64_t index(int64_t i) const { return matrix_of == nullptr ? i : (*matrix_of)[static_cast<size_t>(i)]; }
  int64_t step(int64_t i) const { return index(i + 1) - index(i); }
  std::byte* matrix(int64_t i) const {
    return static_cast<std::byte*>(tensor.raw()) +
           static_cast<size_t>(index(i) * rows * columns) * dtype_size(tensor.dtype());
  }
};

/// The number of products from the i-th on that can be one batch: the matrices of each operand have a constant stride, and
/// no two products add to the same result.
int64_t batch_from(int64_t i, int64_t count, const Operand& a, const Operand& b, const Operand& c) {
  int64_t end = i + 1;
  if (end < count && a.step(i) >= 0 && b.step(i) >= 0 && c.step(i) > 0) {
    while (end < count && a.step(end - 1) == a.step(i) && b.step(end - 1) == b.step(i) &&
           c.step(end - 1) == c.step(i))
      ++end;
  }
  return end - i;
}

/// c = a b, or c += a b, for each of `count` matrices in order.
void matmul_product(int64_t count, const Operand& a, bool transpose_a, const Operand& b, bool transpose_b,
                    const Operand& c, bool accumulate) {
  for (int64_t i = 0; i < count;) {
    const int64_t batch = batch_from(i, count, a, b, c);
    const auto stride = [&](const Operand& x) { return batch > 1 ? x.step(i) * x.rows * x.columns : 0; };
    cuda::gemm(c.rows, c.columns, transpose_a ? a.rows : a.columns,
               {a.matrix(i), a.columns, transpose_a, stride(a)},
               {b.matrix(i), b.columns, transpose_b, stride(b)},
               {c.matrix(i), c.columns, stride(c), c.tensor.dtype(), accumulate}, a.tensor.dtype(), batch);
    i += batch;
  }
}

/// If all of a's matrices are multiplied by one b, the products become one.
MatmulShape merged_shape(const Tensor& a, const Tensor& b, const MatmulAttrs& attrs) {
  MatmulShape s(a.shape(), b.shape(), attrs);
  if (!attrs.transpose_a && b.elements() == s.k * s.n && a.elements() == s.matrices() * s.m * s.k) {
    s.m *= s.matrices();
    s.a_matrix = s.b_matrix = {0};
  }
  return s;
}

/// The operands a and b of the product, and the output (or its gradient), as they are in memory.
struct Operands {
  MatmulShape s;
  Operand a, b, c;

  Operands(const Tensor& a_, const Tensor& b_, const Tensor& c_, const MatmulAttrs& attrs)
      : s(merged_shape(a_, b_, attrs)),
        a{a_, &s.a_matrix, attrs.transpose_a ? s.k : s.m, attrs.transpose_a ? s.m : s.k},
        b{b_, &s.b_matrix, attrs.transpose_b ? s.n : s.k, attrs.transpose_b ? s.k : s.n},
        c{c_, nullptr, s.m, s.n} {}
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
};

void matmul_forward(const ForwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const Operands of(args.inputs[0], args.inputs[1], args.outputs[0], attrs);
  matmul_product(of.s.matrices(), of.a, attrs.transpose_a, of.b, attrs.transpose_b, of.c, false);
}

/// If the operand was broadcast, its gradient is the sum of the products in their order, in f32.
void operand_gradient(int64_t count, const Operand& left, bool transpose_left, const Operand& right,
                      bool transpose_right, const Operand& operand, const Tensor& grad) {
  if (!grad.defined()) return;
  const auto multiply_into = [&](const Tensor& to, bool accumulate) {
    matmul_product(count, left, transpose_left, right, transpose_right,
                   {to, operand.matrix_of, operand.rows, operand.columns}, accumulate);
  };
  if (grad.elements() == count * operand.rows * operand.columns) return multiply_into(grad, false);
  const bool narrow = is_low(grad.dtype());
  const Tensor sum = narrow ? Tensor::empty({grad.shape(), DType::kF32}, grad.device()) : grad;
  cuda::zero(sum);
  multiply_into(sum, true);
  cuda::stored(grad.dtype(), [&](auto type) {
    using T = decltype(type);
    if constexpr (!std::is_same_v<T, float>) cuda::launch_map<float, T>({sum}, grad, cuda::Same());
  });
}

/// dA = dC B^T and dB = A^T dC, each transposed if its operand was.
void matmul_backward(const BackwardArgs& args) {
  const auto& attrs = args.attrs.as<MatmulAttrs>();
  const Operands of(args.inputs[0], args.inputs[1], args.grad_outputs[0], attrs);
  const int64_t count = of.s.matrices();
  if (attrs.transpose_a) {
    operand_gradient(count, of.b, attrs.transpose_b, of.c, true, of.a, args.grad_inputs[0]);
  } else {
    operand_gradient(count, of.c, false, of.b, !attrs.transpose_b, of.a, args.grad_inputs[0]);
  }
  if (attrs.transpose_b) {
    operand_gradient(count, of.c, true, of.a, attrs.transpose_a, of.b, args.grad_inputs[1]);
  } else {
    operand_gradient(count, of.a, !attrs.transpose_a, of.c, false, of.b, args.grad_inputs[1]);
  }
}

}  // namespace

DLPIPE_CUDA_KERNELS(matmul) = {matmul_forward, matmul_backward, cuda::supports_stored};

namespace {

struct Sizes {
  int64_t rows, in, out;
  Sizes(const Tensor& y, const Tensor& weight)
      : rows(weight.size(0) == 0 ? 0 : y.elements() / weight.size(0)),
        in(weight.size(1)),
        out(weight.size(0)) {}
};

/// Returns whether it computed the product. With a bias, only cublasLt can.
bool multiply_aligned(const ForwardArgs& args, const Tensor& y, const Sizes& s, const cuda::GemmMatrix& of_x,
                      const cuda::GemmMatrix& of_weight) {
  if (!cuda::is_better_aligned(y.dtype(), s.rows, s.out)) return false;
  const int64_t pitch = cuda::aligned_pitch(s.out);
  const Tensor wide = Tensor::empty({{s.rows, pitch}, y.dtype()}, y.device());
  const cuda::GemmResult to = {wide.raw(), pitch, 0, y.dtype()};
  if (!has_input(args.inputs, 2)) {
    cuda::gemm(s.rows, s.out, s.in, of_x, of_weight, to, y.dtype());
  } else if (!cuda::gemm_with(cuda::GemmEpilogue::kBias, args.inputs[2].raw(), s.rows, s.out, s.in, of_x,
                              of_weight, to, y.dtype())) {
    return false;
  }
  cuda::copy_rows(wide.raw(), pitch, y.raw(), s.out, s.rows, s.out);
  return true;
}

void linear_product(const ForwardArgs& args, const Tensor& y) {
  const Tensor& x = args.inputs[0];
  const Tensor& weight = args.inputs[1];
  const Sizes s(y, weight);
  const bool has_bias = has_input(args.inputs, 2);
  const cuda::GemmMatrix of_x = {x.raw(), s.in};
  const cuda::GemmMatrix of_weight = {weight.raw(), s.in, true};
  if (multiply_aligned(args, y, s, of_x, of_weight)) return;
  if (has_bias && cuda::gemm_with(cuda::GemmEpilogue::kBias, args.inputs[2].raw(), s.rows, s.out, s.in, of_x,
                                  of_weight, {y.raw(), s.out, 0, y.dtype()}, x.dtype()))
    return;
  if (has_bias)
    cuda::stored(y.dtype(), [&](auto type) { cuda::fill_rows<decltype(type)>(args.inputs[2], y); });
  cuda::gemm(s.rows, s.out, s.in, of_x, of_weight, {y.raw(), s.out, 0, y.dtype(), has_bias}, x.dtype());
}

void linear_forward(const ForwardArgs& args) {
  const Tensor& product = product_of(args.outputs);
  linear_product(args, product);
  cuda::activate(args.attrs.as<LinearAttrs>().activation, product, args.outputs[0]);
}

void linear_backward(const BackwardArgs& args) {
  const Tensor& x = args.inputs[0];
  const Tensor& weight = args.inputs[1];
  const Tensor& grad = args.grad_outputs[0];
  const Sizes s(grad, weight);
  const DType dtype = grad.dtype();
  const bool is_copied = cuda::is_better_aligned(dtype, s.rows, s.out);
  const int64_t pitch = is_copied ? cuda::aligned_pitch(s.out) : s.out;
  const Tensor rows = is_copied ? Tensor::empty({{s.rows, pitch}, dtype}, grad.device()) : grad;
  if (is_copied) cuda::copy_rows(grad.raw(), s.out, rows.raw(), pitch, s.rows, s.out);
  if (const Tensor& grad_x = args.grad_inputs[0]; grad_x.defined()) {
    cuda::gemm(s.rows, s.in, s.out, {rows.raw(), pitch}, {weight.raw(), s.in}, {grad_x.raw(), s.in, 0, dtype},
               dtype);
  }
  const bool wants_bias = args.grad_inputs.size() > 2 && args.grad_inputs[2].defined();
  if (const Tensor& grad_weight = args.grad_inputs[1]; grad_weight.defined()) {
    const cuda::GemmMatrix of_grad = {rows.raw(), pitch, true};
    const cuda::GemmMatrix of_x = {x.raw(), s.in};
    const cuda::GemmResult to = {grad_weight.raw(), s.in, 0, dtype};
    if (wants_bias && cuda::gemm_with(cuda::GemmEpilogue::kSumsOfA, args.grad_inputs[2].raw(), s.out, s.in,
                                      s.rows, of_grad, of_x, to, dtype))
      return;
    cuda::gemm(s.out, s.in, s.rows, of_grad, of_x, to, dtype);
  }
  if (wants_bias) {
    cuda::stored(dtype, [&](auto type) {
      using T = decltype(type);
      cuda::sum_axes<T, T>(grad, bit(grad.rank() - 1) - 1, 1.0f, args.grad_inputs[2]);
    });
  }
}

}  // namespace

DLPIPE_CUDA_KERNELS(linear) = {linear_forward, linear_backward, cuda::supports_stored, nullptr,
                               cuda::fused_kernels<LinearAttrs>};

}  // namespace dlpipe::engine

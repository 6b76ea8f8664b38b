#include "engine/layers/split.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "dlpipe/error.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"

namespace dlpipe::engine {

namespace {

/// The memory of a whole tensor for a split: `outer` times an axis of `size` elements of `inner` numbers.
struct SplitView {
  int64_t outer = 1;  // includes the blocks
  int64_t size = 1;   // of a block of the axis
  int64_t inner = 1;

  SplitView(const Shape& whole, const Split& split)
      : outer(split.blocks), size(whole[split.axis] / split.blocks) {
    const std::span<const int64_t> dims = whole.dims();
    const auto axis = static_cast<size_t>(split.axis);
    const auto product = [](std::span<const int64_t> some) {
      return std::accumulate(some.begin(), some.end(), int64_t{1}, std::multiplies<>());
    };
    outer *= product(dims.first(axis));
    inner = product(dims.subspan(axis + 1));
    if (size * split.blocks != whole[split.axis] || size < 1)
      refuse("split", "an axis of ", whole.to_string(), " is not ", split.blocks, " equal blocks");
  }
};

/// Copies elements [begin, end) of each block of a whole tensor to a contiguous part. put_part copies them back.
void copy_part(const SplitView& view, Collective::Part part, const float* whole, float* to) {
  const int64_t begin = static_cast<int64_t>(part.begin) * view.inner;
  const int64_t count = static_cast<int64_t>(part.end - part.begin) * view.inner;
  for (int64_t o = 0; o < view.outer; ++o)
    std::copy_n(whole + o * view.size * view.inner + begin, count, to + o * count);
}

void put_part(const SplitView& view, Collective::Part part, const float* from, float* whole) {
  const int64_t begin = static_cast<int64_t>(part.begin) * view.inner;
  const int64_t count = static_cast<int64_t>(part.end - part.begin) * view.inner;
  for (int64_t o = 0; o < view.outer; ++o)
    std::copy_n(from + o * count, count, whole + o * view.size * view.inner + begin);
}

Shape with_axis(Shape shape, int axis, int64_t size) {
  shape[axis] = size;
  return shape;
}

Collective::Cuts cuts_of(const SplitView& view, const Collective& ranks) {
  return ranks.even_cuts(static_cast<size_t>(view.size));
}

/// Sums over the ranks in f32. Values of bf16 may be rounded on the way, because the final sum is rounded, too.
Tensor summed(const Tensor& x, Collective& ranks, const char* what) {
  Tensor sum = cast(plain(x), DType::kF32).contiguous_copy();
  const Wire wire = x.dtype() == DType::kBF16 ? Wire::kBf16 : Wire::kF32;
  const std::span<float> values(sum.data<float>(), static_cast<size_t>(sum.elements()));
  throw_if_error(ranks.all_reduce(values, what, wire).wait());
  return cast(sum, x.dtype());
}

class SumGradient final : public Function {
 public:
  explicit SumGradient(Collective& ranks) : ranks_(ranks) {}
  std::string name() const override { return "sum_gradient"; }
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override { return {inputs[0]}; }
  std::vector<Tensor> backward(std::span<const Tensor> grads) override {
    return {summed(grads[0], ranks_, "gradients of a layer's input")};
  }

 private:
  Collective& ranks_;
};

class SumOverRanks final : public Function {
 public:
  explicit SumOverRanks(Collective& ranks) : ranks_(ranks) {}
  std::string name() const override { return "sum_over_ranks"; }
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    return {summed(inputs[0], ranks_, "parts of a layer's output")};
  }
  std::vector<Tensor> backward(std::span<const Tensor> grads) override { return {grads[0]}; }

 private:
  Collective& ranks_;
};

class JoinLastAxis final : public Function {
 public:
  JoinLastAxis(int64_t size, Collective& ranks) : size_(size), ranks_(ranks) {}
  std::string name() const override { return "join_last_axis"; }
  std::vector<Tensor> forward(std::span<const Tensor> inputs) override {
    const Tensor part = cast(plain(inputs[0]), DType::kF32);
    const Tensor whole = whole_of(part, last_axis(part), size_, ranks_, "columns of a layer's output");
    return {cast(whole, inputs[0].dtype())};
  }
  std::vector<Tensor> backward(std::span<const Tensor> grads) override {
    const Tensor own = own_part(cast(grads[0], DType::kF32), last_axis(grads[0]), ranks_);
    return {cast(own, grads[0].dtype())};
  }

 private:
  static Split last_axis(const Tensor& x) { return {.axis = x.rank() - 1}; }

  const int64_t size_;
  Collective& ranks_;
};

}  // namespace

Tensor own_part(const Tensor& whole, const Split& split, const Collective& ranks) {
  const Tensor source = whole.is_contiguous() ? whole : whole.contiguous_copy();
  const SplitView view(whole.shape(), split);
  const Collective::Part part = ranks.part_of(cuts_of(view, ranks));
  const int64_t own_size = static_cast<int64_t>(part.end - part.begin) * split.blocks;
  Tensor own = Tensor::empty(with_axis(whole.shape(), split.axis, own_size));
  copy_part(view, part, source.data<float>(), own.data<float>());
  return own;
}

// The parts are gathered one after another, then interleaved.
Tensor whole_of(const Tensor& part, const Split& split, int64_t size, Collective& ranks,
                const std::string& what) {
  const Tensor source = part.is_contiguous() ? part : part.contiguous_copy();
  const Shape shape = with_axis(part.shape(), split.axis, size);
  const SplitView view(shape, split);
  const Collective::Cuts cuts = cuts_of(view, ranks);
  const auto numbers = static_cast<size_t>(view.outer * view.inner);
  Collective::Cuts places = cuts;
  for (size_t& place : places) place *= numbers;
  std::vector<float> parts(places.back());
  const Collective::Part own = ranks.part_of(places);
  if (static_cast<size_t>(part.elements()) != own.end - own.begin)
    refuse("split", "a part of ", shape.to_string(), " is ", part.shape().to_string());
  std::copy_n(source.data<float>(), part.elements(), parts.begin() + static_cast<int64_t>(own.begin));
  throw_if_error(ranks.all_gather(parts, places, what).wait());
  Tensor whole = Tensor::empty(shape);
  for (size_t p = 0; p + 1 < cuts.size(); ++p)
    put_part(view, {cuts[p], cuts[p + 1]}, parts.data() + places[p], whole.data<float>());
  return whole;
}

Tensor sum_gradient(const Tensor& x, Collective& ranks) {
  return run_function(std::make_shared<SumGradient>(ranks), {x})[0];
}

Tensor sum_over_ranks(const Tensor& x, Collective& ranks) {
  return run_function(std::make_shared<SumOverRanks>(ranks), {x})[0];
}

Tensor join_last_axis(const Tensor& part, int64_t size, Collective& ranks) {
  return run_function(std::make_shared<JoinLastAxis>(size, ranks), {part})[0];
}

}  // namespace dlpipe::engine

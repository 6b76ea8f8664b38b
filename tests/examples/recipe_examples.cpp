// The worked examples of the engine's READMEs and of io/data: see README.md here.
#include <cmath>

#include "dlpipe/dataset.h"
#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"
#include "dlpipe/op.h"
#include "dlpipe/ops.h"
#include "dlpipe/optim.h"
#include "engine/core/parallel.h"
#include "engine/cpu/loops/formula.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/shape_ops.h"
#include "engine/ops/vector_math.h"
#include "engine/reference/formula.h"

namespace dlpipe::engine {

// engine/README.md
struct SoftsignFormula {
  using Attrs = NoAttrs;
  static constexpr Saved kSaved = Saved::kInput;
  template <class T>
  static DLPIPE_FORMULA T forward(T x, const Attrs&) {
    return x / (T(1) + std::abs(x));
  }
  template <class T>
  static DLPIPE_FORMULA T backward(T grad, T x, const Attrs&) {
    return grad / ((T(1) + std::abs(x)) * (T(1) + std::abs(x)));
  }
};
extern const OpRecord softsign_op;
constinit const OpRecord softsign_op =
    elementwise_record<SoftsignFormula, "softsign">([] { return unary_samples(-4, 4); });

Tensor softsign(const Tensor& x) {
  return apply_one(softsign_op, {x}, NoAttrs{});
}

// engine/autograd/README.md
void scaled_example(const Tensor& x) {
  struct Scaled : Function {  // y = x, gradient times 10
    std::string name() const override { return "scaled"; }
    std::vector<Tensor> forward(std::span<const Tensor> inputs) override { return {inputs[0].clone()}; }
    std::vector<Tensor> backward(std::span<const Tensor> grads) override { return {scale(grads[0], 10.0)}; }
  };
  Tensor y = run_function(std::make_shared<Scaled>(), {x})[0];
  static_cast<void>(y);
}

// engine/layers/README.md
class ChannelScale final : public Module {
 public:
  explicit ChannelScale(int64_t channels) : weight_(add_parameter("weight", Tensor::full({channels}, 1.0))) {}
  Tensor forward(const Tensor& x) override { return mul(x, weight_); }  // broadcasts over N,H,W
  std::string kind() const override { return "ChannelScale"; }
  void reset_parameters(uint64_t, const std::string&) override { fill_constant(weight_, 1.0); }

 private:
  Tensor weight_;
};

namespace square_on_cpu {
// engine/cpu/README.md
void forward(const ForwardArgs& args) {
  const float* x = args.inputs[0].data<float>();
  float* y = args.outputs[0].data<float>();
  parallel_ranges(args.inputs[0].elements(), cpu::kElementwiseGrain, [&](int64_t begin, int64_t end) {
    cpu::on_best_isa([=]() DLPIPE_INLINE {
      for (int64_t i = begin; i < end; ++i) y[i] = x[i] * x[i];  // no branch, no call: it becomes vectors
    });
  });
}
}  // namespace square_on_cpu

namespace square_by_reference {
void backward(const BackwardArgs& args);
// engine/reference/README.md
void forward(const ForwardArgs& args) {
  reference::typed(args.inputs[0].dtype(), [&]<class T>(T) {
    const T* x = args.inputs[0].data<T>();
    T* y = args.outputs[0].data<T>();
    for (int64_t i = 0; i < args.inputs[0].elements(); ++i) y[i] = x[i] * x[i];
  });
}
extern const Kernels name_reference;
const Kernels name_reference = {.forward = forward, .backward = backward};
}  // namespace square_by_reference

namespace slice_again {
std::vector<TensorSpec> infer(std::span<const TensorSpec> inputs, std::span<const bool>, const Attrs& any);
std::vector<OpSample> samples();
extern const OpRecord slice_op;
// engine/ops/README.md
const OpRecord slice_op = {
    .name = "slice",
    .attr_form = &attr_form<SliceAttrs>,  // the attributes by name, for files of graphs
    .infer = infer,               // throws "[slice] range 2..9 ... of [5]; the range must be within the axis"
    .autocast = Autocast::kAsIs,  // any dtype passes through
    .batch_inputs = bit(0),       // of a batch along axis 0 each part can be computed by itself ...
    .by_sample = is_off_axis_0<SliceAttrs>,  // ... but where rows are taken away
    .view = [](const Tensor& x, const Attrs& attrs) { return sliced_view(x, attrs.as<SliceAttrs>()); },
    .samples = samples,  // every case that its kernels tell apart
};
}  // namespace slice_again

namespace tiny {
// engine/models/README.md
std::shared_ptr<Module> build(const ModelArguments& arguments) {
  check_model_arguments("tinynet", arguments, 4);  // the smallest image it can take
  auto model = std::shared_ptr<Sequential>(new Sequential{
      {"conv", std::make_shared<Conv2d>(arguments.channels, 16, 3, Conv2dArguments{.padding = 1})},
      {"relu", std::make_shared<ReLU>()},
      {"pool", std::make_shared<GlobalAvgPool>()},
      {"fc", std::make_shared<Linear>(16, arguments.classes)},
  });
  initialize(*model, arguments.seed);
  return model;
}
extern const ModelRecord tinynet_model;
const ModelRecord tinynet_model = {"tinynet", "one convolution", 0, build, "fc."};
}  // namespace tiny

namespace sign {
// engine/optim/README.md
class SignSgd final : public ElementwiseOptimizer {
 public:
  SignSgd(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments)
      : ElementwiseOptimizer(std::move(parameters), arguments, a_float_each({})) {}  // names of state tensors
 protected:
  void begin_step(double lr, int64_t) override { lr_ = static_cast<float>(lr); }
  void update(const ElementRun& run) const override {  // many threads at once
    for (int64_t i = 0; i < run.count; ++i) {
      const float gradient = run.gradients[i];  // of sign 0 where it is 0
      run.weights[i] -= lr_ * run.lr_scale * static_cast<float>((gradient > 0) - (gradient < 0));
    }
  }

 private:
  float lr_ = 0.0f;
};
std::unique_ptr<Optimizer> build(std::vector<NamedTensor> parameters, const OptimizerArguments& arguments) {
  return std::make_unique<SignSgd>(std::move(parameters), arguments);
}
constexpr OptionDefault kOptions[] = {{"lr", "0.0001"}};  // what it looks at, with its defaults
extern const OptimizerRecord signsgd_optimizer;
const OptimizerRecord signsgd_optimizer = {"signsgd", "steps of the learning rate's size", build, kOptions};
}  // namespace sign

}  // namespace dlpipe::engine

namespace dlpipe {

// io/data/README.md
void dataset_example() {
  auto dataset = value_or_throw(data::Dataset::open("DST", "train"));
  auto reader = value_or_throw(dataset->reader());  // one per thread
  auto row = value_or_throw(dataset->header(7));    // size, label, checksum: no record touched
  auto record = value_or_throw(reader->record(7));  // in the map
  auto image = value_or_throw(data::image_bytes(*dataset, record));  // JPEG, PNG or raw
  static_cast<void>(row);
  static_cast<void>(image);
}

}  // namespace dlpipe

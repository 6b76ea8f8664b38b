#include "tests/engine/check_op.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "dlpipe/ops.h"
#include "dlpipe/random.h"
#include "engine/core/device_code.h"
#include "engine/core/isa.h"
#include "engine/core/parallel.h"

namespace dlpipe::engine {

namespace {

constexpr uint64_t kSeed = 20261121;
// Elements of each input whose derivative is taken numerically: each costs two forwards.
int64_t numeric_elements(int64_t elements) {
  return elements <= 4000 ? 60 : 4;
}

bool is_image(const OpRecord& record, size_t input) {
  return (record.image_inputs & bit(static_cast<int>(input))) != 0;
}
bool is_differentiable(const OpRecord& record, size_t input) {
  return (record.differentiable & bit(static_cast<int>(input))) != 0;
}

// A floating input stands for "the dtype under test"; beside low images, an op that takes inputs as they are
// has f32 parameters.
DType tested_dtype(const OpRecord& record, size_t input, DType spec, DType tested) {
  if (!is_floating(spec)) return spec;
  if (is_low(tested) && record.autocast == Autocast::kAsIs && !is_image(record, input)) return DType::kF32;
  return tested;
}

Tensor from_doubles(const std::vector<double>& values, const Shape& shape, DType dtype) {
  return cast(Tensor::from<double>(values, shape), dtype);
}

double rounded(double value, DType dtype) {
  const auto narrow = static_cast<float>(value);
  if (dtype == DType::kF32) return narrow;
  if (dtype == DType::kBF16) return static_cast<float>(BFloat16(narrow));
  if (dtype == DType::kF16) return static_cast<float>(Float16(narrow));
  return value;
}

// The values of one sample as doubles that every tested dtype represents exactly.
struct Values {
  std::vector<std::vector<double>> inputs;

  Values(const OpSample& sample, int number, DType exact_in) {
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      RandomStream random(kSeed, static_cast<uint64_t>(number) * 64 + i);
      const TensorSpec& spec = sample.inputs[i];
      std::vector<double> values(static_cast<size_t>(spec.shape.elements()));
      for (double& value : values) {
        if (is_floating(spec.dtype)) {
          value = sample.low + (sample.high - sample.low) * random.uniform_double();
          value = rounded(value, exact_in);
        } else {
          value = random.below(static_cast<uint32_t>(sample.int_high));
        }
      }
      inputs.push_back(std::move(values));
    }
  }
};

struct Answer {
  std::vector<Tensor> outputs;
  std::vector<Tensor> grads;  // one per input, undefined where there is none
};

// Runs one sample. Nothing is shared with the caller's tensors: ops may change state in place.
class Runner {
 public:
  Runner(const OpRow& row, const OpSample& sample, int number)
      : row_(row), record_(*row.record), sample_(sample), number_(number) {}

  std::vector<Tensor> make_inputs(const Values& values, DType tested) const {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < sample_.inputs.size(); ++i) {
      const TensorSpec& spec = sample_.inputs[i];
      inputs.push_back(
          from_doubles(values.inputs[i], spec.shape, tested_dtype(record_, i, spec.dtype, tested)));
    }
    return inputs;
  }

  bool has_gradient() const {
    return record_.differentiable != 0 && row_.kernels[0] != nullptr && row_.kernels[0]->backward != nullptr;
  }

  // The gradient that comes in for an output: keyed, exact in bf16 and f16.
  Tensor seed_of(const Tensor& output, size_t index) const {
    RandomStream random(kSeed + 1, static_cast<uint64_t>(number_) * 64 + index);
    std::vector<double> values(static_cast<size_t>(output.elements()));
    for (double& value : values) value = std::floor(random.uniform_double() * 64 - 32) / 32;
    return from_doubles(values, output.shape(), output.dtype());
  }

  std::vector<Tensor> forward(const std::vector<Tensor>& inputs, Backend backend) const {
    const NoGrad no_grad;
    const UseBackend use(backend);
    std::vector<Tensor> copies;
    for (const Tensor& input : inputs) copies.push_back(input.clone());
    return apply(row_, copies, sample_.attrs);
  }

  // `layouts`: of each input; empty: plain.
  Answer run(const std::vector<Tensor>& inputs, Backend backend,
             const std::vector<Layout>& layouts = {}) const {
    const UseBackend use(backend);
    std::vector<Tensor> leaves;
    std::vector<Tensor> given;
    for (size_t i = 0; i < inputs.size(); ++i) {
      Tensor leaf = inputs[i].clone();
      if (has_gradient() && is_differentiable(record_, i) && is_floating(leaf.dtype()))
        leaf.set_requires_grad(true);
      leaves.push_back(leaf);
      given.push_back(layouts.empty() || layouts[i] == Layout::kPlain ? leaf : reorder(leaf, layouts[i]));
    }
    Answer answer;
    answer.outputs = apply(row_, given, sample_.attrs);
    if (has_gradient()) {
      for (size_t i = 0; i < answer.outputs.size(); ++i) {
        const Tensor& output = answer.outputs[i];
        if (output.requires_grad())
          output.backward(seed_of(output, i).to(output.device()), i + 1 < answer.outputs.size());
      }
    }
    for (const Tensor& leaf : leaves) answer.grads.push_back(leaf.grad());
    return answer;
  }

  // sum over outputs of output * seed: what the gradients are the derivatives of.
  double objective(const std::vector<Tensor>& inputs, std::vector<Tensor>& seeds) const {
    double sum = 0;
    const std::vector<Tensor> outputs = forward(inputs, Backend::kReference);
    seeds.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (!is_floating(outputs[i].dtype())) continue;
      if (!seeds[i].defined()) seeds[i] = cast(seed_of(outputs[i], i), DType::kF64);
      const Tensor values = cast(outputs[i], DType::kF64);
      const auto* const value = values.data<double>();
      const auto* const seed = seeds[i].data<double>();
      const int64_t count = values.elements();
      for (int64_t k = 0; k < count; ++k) sum += value[k] * seed[k];
    }
    return sum;
  }

  const OpRow& row_;
  const OpRecord& record_;
  const OpSample& sample_;
  int number_;
};

void expect_near(const Answer& got, const Answer& expected, const Tolerance& tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.outputs.size(), expected.outputs.size()) << what;
  for (size_t i = 0; i < got.outputs.size(); ++i) {
    expect_near(got.outputs[i], expected.outputs[i], tolerance, concat(what, ", output ", i));
  }
  for (size_t i = 0; i < got.grads.size(); ++i) {
    expect_near(got.grads[i], expected.grads[i], tolerance, concat(what, ", gradient of input ", i));
  }
}

void expect_same_bits(const Tensor& got, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(got.defined(), expected.defined()) << what;
  if (!got.defined()) return;
  ASSERT_EQ(got.spec(), expected.spec()) << what;
  const Tensor a = got.contiguous_copy();
  const Tensor b = expected.contiguous_copy();
  EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.size_bytes()), 0) << what;
}

void expect_same_bits(const Answer& got, const Answer& expected, const std::string& what) {
  for (size_t i = 0; i < expected.outputs.size(); ++i) {
    expect_same_bits(got.outputs[i], expected.outputs[i], concat(what, ", output ", i));
  }
  for (size_t i = 0; i < expected.grads.size(); ++i) {
    expect_same_bits(got.grads[i], expected.grads[i], concat(what, ", gradient of input ", i));
  }
}

void check_numeric_gradient(const Runner& runner, const std::string& what) {
  if (!runner.has_gradient()) return;
  const Values values(runner.sample_, runner.number_, DType::kF64);
  const std::vector<Tensor> inputs = runner.make_inputs(values, DType::kF64);
  const Answer answer = runner.run(inputs, Backend::kReference);
  std::vector<Tensor> seeds;
  constexpr double kStep = 1e-5;  // error of the difference: h^2 = 1e-10, and rounding 1e-16 / h = 1e-11
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_differentiable(runner.record_, i) || !is_floating(runner.sample_.inputs[i].dtype)) continue;
    ASSERT_TRUE(answer.grads[i].defined()) << what << ": no gradient of input " << i;
    const std::vector<double> grad = answer.grads[i].to_doubles();
    const int64_t stride =
        std::max<int64_t>(1, inputs[i].elements() / numeric_elements(inputs[i].elements()));
    for (int64_t k = 0; k < inputs[i].elements(); k += stride) {
      double side[2];
      for (int s = 0; s < 2; ++s) {
        std::vector<Tensor> moved = inputs;
        moved[i] = inputs[i].clone();
        moved[i].data<double>()[k] += s == 0 ? kStep : -kStep;
        side[s] = runner.objective(moved, seeds);
      }
      const double numeric = (side[0] - side[1]) / (2 * kStep);
      // Large sums in the objective cancel in the difference and leave their rounding.
      const double allowed = 1e-6 * std::abs(numeric) + 1e-7 + 1e-10 * std::abs(side[0]);
      EXPECT_NEAR(grad[static_cast<size_t>(k)], numeric, allowed)
          << what << ": gradient of input " << i << ", element " << k;
    }
  }
}

const Kernels* cpu_kernels(const OpRow& row) {
  return row.kernels[static_cast<int>(Backend::kCpu)];
}

bool cpu_supports(const Runner& runner, const std::vector<Tensor>& inputs) {
  const Kernels* kernels = cpu_kernels(runner.row_);
  if (kernels == nullptr) return false;
  std::vector<TensorSpec> specs;
  for (const Tensor& input : inputs) specs.push_back(input.spec());
  return kernels->supports == nullptr || kernels->supports(specs, runner.sample_.attrs);
}

void check_precisions(const Runner& runner, const std::string& what) {
  const OpRecord& record = runner.record_;
  const Values f32(runner.sample_, runner.number_, DType::kF32);
  const Answer exact = runner.run(runner.make_inputs(f32, DType::kF64), Backend::kReference);
  const std::vector<Tensor> inputs = runner.make_inputs(f32, DType::kF32);
  expect_near(runner.run(inputs, Backend::kReference), exact, record.f32, what + ", reference f32");
  expect_near(runner.run(inputs, Backend::kCpu), exact, record.f32, what + ", cpu f32");

  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    const Values rounded(runner.sample_, runner.number_, dtype);
    const std::vector<Tensor> low = runner.make_inputs(rounded, dtype);
    if (!cpu_supports(runner, low)) continue;
    const Answer wide = runner.run(runner.make_inputs(rounded, DType::kF64), Backend::kReference);
    expect_near(runner.run(low, Backend::kCpu), wide, tolerance_of(record, dtype),
                concat(what, ", cpu ", dtype_name(dtype)));
  }
}

void check_layouts(const Runner& runner, const std::string& what) {
  const OpRecord& record = runner.record_;
  const Values values(runner.sample_, runner.number_, DType::kF32);
  const std::vector<Tensor> inputs = runner.make_inputs(values, DType::kF32);
  for (Layout layout : {Layout::kBlocked8, Layout::kBlocked16}) {
    if (!(record.layouts & bit(static_cast<int>(layout)))) continue;
    std::vector<Layout> all(inputs.size(), Layout::kPlain);
    int images = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Shape& shape = inputs[i].shape();
      if (!is_image(record, i) || inputs[i].dtype() != DType::kF32 || shape.rank() != 4) continue;
      if (shape[3] % layout_block(layout) != 0) continue;
      all[i] = layout;
      ++images;
    }
    if (images == 0) continue;
    const Answer plain_answer = runner.run(inputs, Backend::kCpu);
    const std::string where = concat(what, ", ", layout_name(layout));
    expect_near(runner.run(inputs, Backend::kCpu, all), plain_answer, record.f32, where);
    expect_near(runner.run(inputs, Backend::kReference, all), plain_answer, record.f32,
                where + ", reference");
    if (images < 2) continue;
    std::find(all.begin(), all.end(), layout)[0] = Layout::kPlain;
    expect_near(runner.run(inputs, Backend::kCpu, all), plain_answer, record.f32, where + ", mixed");
  }
}

void check_threads(const Runner& runner, const std::string& what) {
  const Values values(runner.sample_, runner.number_, DType::kBF16);
  const int former = engine_threads();
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<Tensor> inputs = runner.make_inputs(values, dtype);
    if (!cpu_supports(runner, inputs)) continue;
    set_engine_threads(1);
    const Answer one = runner.run(inputs, Backend::kCpu);
    for (int threads : {2, 3}) {
      set_engine_threads(threads);
      const Answer many = runner.run(inputs, Backend::kCpu);
      expect_same_bits(many, one, concat(what, ", ", dtype_name(dtype), ", ", threads, " threads"));
    }
  }
  set_engine_threads(former);
}

void check_isas(const Runner& runner, const std::string& what) {
  const Values values(runner.sample_, runner.number_, DType::kBF16);
  const Kernels* const kernels = cpu_kernels(runner.row_);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const std::vector<Tensor> inputs = runner.make_inputs(values, dtype);
    if (!cpu_supports(runner, inputs)) continue;
    const Answer best = runner.run(inputs, Backend::kCpu);
    for (cpu::Isa isa : {cpu::Isa::kAvx2, cpu::Isa::kBaseline}) {
      if (isa >= cpu::isa()) continue;
      const cpu::LimitIsa limit(isa);
      const Answer answer = runner.run(inputs, Backend::kCpu);
      const std::string where = concat(what, ", ", dtype_name(dtype), ", isa ", static_cast<int>(isa));
      if (kernels->same_bits_on_every_isa) {
        expect_same_bits(answer, best, where);
      } else {
        expect_near(answer, best, tolerance_of(runner.record_, dtype), where);
      }
    }
  }
}

// How many samples the cpu's own kernels take in `dtype`: what they don't take, the reference computes, and
// every comparison with it passes.
int samples_taken(const OpRow& row, const std::vector<OpSample>& samples, DType dtype) {
  int taken = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Runner runner(row, samples[i], static_cast<int>(i));
    const Values values(samples[i], static_cast<int>(i), DType::kBF16);
    taken += cpu_supports(runner, runner.make_inputs(values, dtype)) ? 1 : 0;
  }
  return taken;
}

void check_cpu_kernels_run(const OpRow& row, const std::vector<OpSample>& samples) {
  if (cpu_kernels(row) == nullptr) return;
  if (std::string_view(row.record->name) == "cast") return;  // rounding has no derivative: cast_test.cpp
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (is_low(dtype) && row.record->autocast == Autocast::kF32) continue;  // widened before they see it
    EXPECT_GT(samples_taken(row, samples, dtype), 0) << "no sample of " << row.record->name << " in "
                                                     << dtype_name(dtype) << " is what its cpu kernels take";
  }
}

}  // namespace

void expect_near(const Tensor& got, const Tensor& expected, const Tolerance& tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.defined(), expected.defined()) << what;
  if (!got.defined()) return;
  ASSERT_EQ(got.shape().to_string(), expected.shape().to_string()) << what;
  const std::vector<double> a = got.to_doubles();
  const std::vector<double> b = expected.to_doubles();
  int reported = 0;
  for (size_t i = 0; i < a.size() && reported < 3; ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (a[i] == b[i]) continue;  // infinities
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(b[i]);
    // Of an infinity any share is infinite.
    if (std::isfinite(b[i]) && std::abs(a[i] - b[i]) <= allowed) continue;
    ++reported;
    ADD_FAILURE() << what << ": element " << i << " of " << expected.shape().to_string() << " is " << a[i]
                  << ", expected " << b[i] << ", tolerance " << allowed << " (" << tolerance.reason << ")";
  }
}

const Tolerance& tolerance_of(const OpRecord& record, DType dtype) {
  return dtype == DType::kBF16 ? record.bf16 : dtype == DType::kF16 ? record.f16 : record.f32;
}

void check_op(const OpRow& row) {
  ASSERT_NE(row.record->samples, nullptr) << row.record->name << " has no samples";
  const std::vector<OpSample> samples = row.record->samples();
  ASSERT_FALSE(samples.empty()) << row.record->name << " has no samples";
  check_cpu_kernels_run(row, samples);
  for (size_t i = 0; i < samples.size(); ++i) {
    const Runner runner(row, samples[i], static_cast<int>(i));
    const std::string what = concat(row.record->name, ", sample '", samples[i].name, "'");
    check_numeric_gradient(runner, what);
    check_precisions(runner, what);
    check_layouts(runner, what);
    check_threads(runner, what);
    check_isas(runner, what);
    if (testing::Test::HasFatalFailure()) return;
  }
}

void check_kernels(const char* name, const Kernels& kernels, std::vector<OpSample> (*own_samples)()) {
  const OpRow* const builtin = OpRegistry::builtin().get(name);
  ASSERT_NE(builtin, nullptr) << "no op " << name;
  OpRecord record = *builtin->record;
  record.layouts = bit(static_cast<int>(Layout::kPlain));
  record.choose_layout = [](std::span<const TensorSpec>, const Attrs&) { return LayoutChoice(); };
  if (own_samples != nullptr) record.samples = own_samples;
  const OpRow row = {&record, {builtin->kernels[0], &kernels, nullptr}};
  const std::vector<OpSample> samples = record.samples();
  int taken = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Runner runner(row, samples[i], static_cast<int>(i));
    const Values values(samples[i], static_cast<int>(i), DType::kF32);
    if (!cpu_supports(runner, runner.make_inputs(values, DType::kF32))) continue;
    ++taken;
    check_precisions(runner, concat(name, " of ", samples[i].name));
  }
  EXPECT_GT(taken, 0) << "no sample of " << name << " is what its kernels take";
}

void check_on_device(const char* name, Device& device, std::vector<OpSample> (*own_samples)()) {
  const OpRow* const row = OpRegistry::builtin().get(name);
  ASSERT_NE(row, nullptr) << "no op " << name;
  const Kernels& kernels = *device_code(device).kernels(*row);
  const std::vector<OpSample> samples = own_samples != nullptr ? own_samples() : row->record->samples();
  int taken = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Runner runner(*row, samples[i], static_cast<int>(i));
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const Values values(samples[i], static_cast<int>(i), dtype);
      std::vector<Tensor> inputs = runner.make_inputs(values, dtype);
      if (kernels.supports != nullptr && !kernels.supports(specs_of(inputs), samples[i].attrs)) continue;
      ++taken;
      const Answer exact = runner.run(runner.make_inputs(values, DType::kF64), Backend::kReference);
      for (Tensor& input : inputs) input = input.to(device);
      expect_near(runner.run(inputs, Backend::kCpu), exact, tolerance_of(*row->record, dtype),
                  concat(name, " of ", samples[i].name, ", ", dtype_name(dtype), " on ", device.name()));
    }
  }
  EXPECT_GT(taken, 0) << "no sample of " << name << " is what its kernels take";
}

void check_op(const char* name) {
  const OpRow* row = OpRegistry::builtin().get(name);
  ASSERT_NE(row, nullptr) << "no op " << name;
  check_op(*row);
}

}  // namespace dlpipe::engine

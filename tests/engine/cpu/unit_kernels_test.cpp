// The loops of conv_unit and conv_pair on each of Highway's targets, beside the reference: check_op's limits of instruction
// sets don't reach them.
#include "engine/cpu/conv/unit_kernels.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>
#include <cmath>
#include <string_view>
#include <vector>

#include "dlpipe/op.h"
#include "dlpipe/random.h"

namespace dlpipe::engine::cpu {
namespace {

std::vector<Tensor> drawn_inputs(const OpSample& sample) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    RandomStream random(20261125, i);
    Tensor input = Tensor::empty(sample.inputs[i].shape);
    for (int64_t k = 0; k < input.elements(); ++k)
      input.data<float>()[k] = static_cast<float>(random.uniform_double() * 2 - 1);
    inputs.push_back(input);
  }
  return inputs;
}

const OpRow& row_named(std::string_view name) {
  for (const OpRow& row : op_table()) {
    if (row.name() == name) return row;
  }
  throw Error(Status(ErrorCode::kInternal, "no such op"));
}

TEST(UnitKernels, OnEveryTargetAnswerTheReferencesValues) {
  const NoGrad no_grad;
  int targets = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    ++targets;
    for (const char* const name : {"conv_unit", "conv_pair"}) {
      const OpRow& row = row_named(name);
      for (const OpSample& sample : row.record->samples()) {
        const std::vector<Tensor> inputs = drawn_inputs(sample);
        const std::vector<double> got = apply(row, inputs, sample.attrs)[0].to_doubles();
        const UseBackend reference(Backend::kReference);
        const std::vector<double> expected = apply(row, inputs, sample.attrs)[0].to_doubles();
        ASSERT_EQ(got.size(), expected.size());
        const Tolerance& tolerance = row.record->f32;
        int wrong = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          const double allowed = tolerance.absolute + tolerance.relative * std::abs(expected[i]);
          wrong += std::abs(got[i] - expected[i]) <= allowed ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0) << name << ", " << sample.name << ", " << hwy::TargetName(target);
      }
    }
    hwy::SetSupportedTargetsForTest(0);
  }
  EXPECT_GT(targets, 0);
}

}  // namespace
}  // namespace dlpipe::engine::cpu

#include <gtest/gtest.h>

#include "dlpipe/models.h"
#include "dlpipe/ops.h"
#include "tests/engine/models/check_model.h"

namespace dlpipe::engine {
namespace {

ModelArguments small() {
  ModelArguments arguments{.classes = 11, .seed = 1};
  arguments.length = 20;
  return arguments;
}

TEST(GptChar, DoesWhatModelsDo) {
  check_model("gpt_char", small());
}

TEST(GptChar, HasTheParametersOfItsPlan) {
  // Tied head and embedding 65 * 384, positions 256 * 384, six blocks, a norm.
  const int64_t block =
      2 * 2 * 384 + (384 + 1) * 3 * 384 + (384 + 1) * 384 + (384 + 1) * 1536 + (1536 + 1) * 384;
  ModelArguments arguments{.classes = 65};
  arguments.length = 256;
  EXPECT_EQ(count_parameters("gpt_char", arguments), 65 * 384 + 256 * 384 + 6 * block + 2 * 384);
}

TEST(GptChar, TakesShorterSequencesAndPredictsFromTheFrontAlone) {
  const auto model = value_or_throw(ModelRegistry::builtin().find("gpt_char"))->build(small());
  model->eval();
  const NoGrad no_grad;
  std::vector<int64_t> ids = {1, 2, 3, 4, 5, 6, 7};
  const std::vector<double> all = (*model)(Tensor::from<int64_t>(ids, {1, 7})).to_doubles();
  ids[5] = 0;
  const std::vector<double> changed = (*model)(Tensor::from<int64_t>(ids, {1, 7})).to_doubles();
  for (size_t i = 0; i < 5 * 11; ++i) EXPECT_EQ(all[i], changed[i]) << i;
  EXPECT_NE(all[5 * 11], changed[5 * 11]);
  EXPECT_THROW((*model)(Tensor::zeros({1, 21}, DType::kI64)), Error);
}

}  // namespace
}  // namespace dlpipe::engine

#include <gtest/gtest.h>

#include "dlpipe/layers.h"
#include "dlpipe/models.h"
#include "dlpipe/module.h"

namespace dlpipe::engine {
namespace {

std::shared_ptr<Module> build_tiny(const ModelArguments& arguments) {
  auto model = std::make_shared<Sequential>();
  model->append("pool", std::make_shared<GlobalAvgPool>())
      .append("fc", std::make_shared<Linear>(arguments.channels, arguments.classes));
  initialize(*model, arguments.seed);
  return model;
}
const ModelRecord kTiny = {"tiny", "a test's own", 0, build_tiny, "fc."};

TEST(ModelRegistry, SuggestsTheNearestName) {
  const auto found = ModelRegistry::builtin().find("resnet81");
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), ErrorCode::kMisuse);
  EXPECT_NE(found.status().message().find("[model] no model 'resnet81'"), std::string::npos);
  EXPECT_NE(found.status().message().find("resnet18"), std::string::npos) << found.status().message();
}

TEST(ModelRegistry, TakesAProgramsOwnModel) {
  ModelRegistry registry = ModelRegistry::builtin();
  registry.add(kTiny);
  EXPECT_EQ(value_or_throw(registry.find("tiny")), &kTiny);
  EXPECT_FALSE(ModelRegistry::builtin().find("tiny").ok());
  EXPECT_THROW(registry.add(kTiny), Error);
}

TEST(ModelRegistry, EveryModelHasHelpAndAHead) {
  EXPECT_GE(ModelRegistry::builtin().records().size(), 6u);
  for (const ModelRecord* record : ModelRegistry::builtin().records()) {
    EXPECT_GT(std::string(record->help).size(), 10u) << record->name;
    EXPECT_TRUE(std::string(record->head).ends_with(".")) << record->name;
  }
}

TEST(Summary, CountsOfResnet18AreTheKnownOnes) {
  const ModelArguments arguments = {1000, 3, 224, 224, 0};
  const auto model = value_or_throw(ModelRegistry::builtin().find("resnet18"))->build(arguments);
  const ModelSummary totals = summarize(*model, arguments, 1);
  EXPECT_EQ(totals.parameters, 11689512);
  EXPECT_EQ(totals.trainable_parameters, 11689512);
  EXPECT_EQ(totals.gradient_bytes, 4 * 11689512);
  // Convolutions and classifier are 1.814e9 multiply-adds (He et al., table 1: "1.8e9"); norms and pools add
  // 0.4 %.
  EXPECT_NEAR(totals.flops, 2 * 1.814e9, 0.006 * 2 * 1.814e9);
  EXPECT_TRUE(model->is_training());
}

TEST(Summary, ScalesWithTheBatchAndKnowsWhatIsFrozen) {
  const ModelArguments arguments = {10, 1, 28, 28, 0};
  const auto model = value_or_throw(ModelRegistry::builtin().find("lenet"))->build(arguments);
  model->freeze("conv*");
  const ModelSummary one = summarize(*model, arguments, 1);
  const ModelSummary many = summarize(*model, arguments, 16);
  EXPECT_EQ(one.parameters - one.trainable_parameters, 156 + 2416);
  EXPECT_EQ(many.parameters, one.parameters);
  EXPECT_DOUBLE_EQ(many.flops, 16 * one.flops);
  EXPECT_EQ(many.activation_bytes, 16 * one.activation_bytes);
  ASSERT_EQ(many.layers.size(), 12u);
  EXPECT_EQ(many.layers[0].output, (Shape{16, 28, 28, 6}));
}

// Attention lies between its layers, and the head is the table of tokens once more.
TEST(Summary, CountsAttentionAndSharedHeads) {
  const auto flops = [](const char* name, const ModelArguments& arguments) {
    const auto model = value_or_throw(ModelRegistry::builtin().find(name))->build(arguments);
    return summarize(*model, arguments, 1).flops;
  };
  const auto of_vocabulary = [&](int64_t classes, int64_t length) {
    return flops("gpt_char_tiny", {.classes = classes, .length = length});
  };
  const ModelArguments arguments = {.classes = 65, .length = 64};
  const auto gpt = value_or_throw(ModelRegistry::builtin().find("gpt_char_tiny"))->build(arguments);
  int64_t width = 0, blocks = 0;
  for (const NamedTensor& parameter : gpt->parameters()) {
    if (parameter.name == "tokens.weight") width = parameter.tensor.size(1);
    blocks += parameter.name.ends_with("attn.proj.weight");
  }
  EXPECT_DOUBLE_EQ(of_vocabulary(165, 64) - of_vocabulary(65, 64), 2.0 * 100 * 64 * width);
  // Of twice the length all is twice as much, but for attention, which is four times as much: 2 T^2 width of each block.
  EXPECT_DOUBLE_EQ(of_vocabulary(65, 128) - 2 * of_vocabulary(65, 64),
                   static_cast<double>(2 * 2 * 64 * 64 * width * blocks));
  EXPECT_NEAR(flops("vit_small_cifar", {10, 3, 32, 32, 0}), 2.8e9, 0.05e9);  // as its help says
}

TEST(Summary, LeavesEveryModuleInItsMode) {
  const ModelArguments arguments = {10, 1, 28, 28, 0};
  const auto model = value_or_throw(ModelRegistry::builtin().find("lenet"))->build(arguments);
  model->children().front().second->eval();
  (void)summarize(*model, arguments, 1);
  EXPECT_TRUE(model->is_training());
  EXPECT_FALSE(model->children().front().second->is_training());
  EXPECT_TRUE(model->children().back().second->is_training());
}

TEST(Summary, LeavesHooksOfOthers) {
  const ModelArguments arguments = {10, 1, 28, 28, 0};
  const auto model = value_or_throw(ModelRegistry::builtin().find("lenet"))->build(arguments);
  int calls = 0;
  model->register_forward_hook([&](Module&, const Tensor&, const Tensor&) { ++calls; });
  (void)summarize(*model, arguments, 1);
  EXPECT_THROW((void)summarize(*model, {10, 1, 2, 2, 0}, 1), Error) << "a size that the model isn't of";
  for (const Module::Named& named : model->modules())
    EXPECT_EQ(named.module->has_forward_hooks(), named.module == model.get()) << named.name;
  EXPECT_EQ(calls, 1);
}

TEST(Summary, AskedTwiceItAnswersTheSame) {
  const ModelArguments arguments = {10, 1, 28, 28, 0};
  const auto model = value_or_throw(ModelRegistry::builtin().find("lenet"))->build(arguments);
  const ModelSummary first = summarize(*model, arguments, 8), second = summarize(*model, arguments, 8);
  EXPECT_EQ(first.parameters, 61'706);
  ASSERT_EQ(second.layers.size(), first.layers.size()) << "hooks of the first one are gone";
  EXPECT_EQ(second.layers[0].output, first.layers[0].output);
  EXPECT_EQ(second.flops, first.flops);
}

}  // namespace
}  // namespace dlpipe::engine

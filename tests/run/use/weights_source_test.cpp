#include "run/use/loaded_model.h"

#include <gtest/gtest.h>

#include "dlpipe/augment.h"
#include "run/record/checkpoint.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {

using engine::ModelArguments;
using engine::NamedTensor;
using test::ScratchFolder;

static const engine::ModelRecord& record_of(const char* name) {
  return *value_or_throw(engine::ModelRegistry::builtin().find(name));
}

static std::shared_ptr<engine::Module> lenet(uint64_t seed, int64_t classes = 10) {
  return record_of("lenet").build(
      {.classes = classes, .channels = 1, .height = 28, .width = 28, .seed = seed});
}

/// A lenet's weights under `prefix` + their names.
static void save_lenet(const std::string& path, const std::string& prefix = "") {
  std::vector<NamedTensor> tensors = lenet(1)->state_dict();
  for (NamedTensor& tensor : tensors) tensor.name = prefix + tensor.name;
  ASSERT_TRUE(save_tensors(path, tensors).ok());
}

static std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(WeightsSource, PrefixesOfWrappersAreLeftOutWithANote) {
  ScratchFolder folder;
  const auto wanted = lenet(1)->state_dict();
  for (const char* prefix : {"", "module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "model.",
                             "net.", "model._orig_mod.", "module.model."}) {
    save_lenet(folder / "w.safetensors", prefix);
    const WeightsSource source = open_weights(folder / "w.safetensors");
    EXPECT_FALSE(source.state.has_value());
    EXPECT_EQ(source.notes.size(),
              std::string(prefix).empty() ? 0u : (std::string(prefix).size() > 12 ? 2u : 1u));
    const auto model = lenet(2);
    copy_weights(source, record_of("lenet"), false, *model, {}, {});
    const auto got = model->state_dict();
    for (size_t i = 0; i < wanted.size(); ++i)
      EXPECT_EQ(got[i].tensor.to_doubles(), wanted[i].tensor.to_doubles()) << prefix << wanted[i].name;
  }
}

TEST(WeightsSource, APrefixOfSomeNamesStays) {
  ScratchFolder folder;
  std::vector<NamedTensor> tensors = lenet(1)->state_dict();
  tensors[0].name = "module." + tensors[0].name;
  ASSERT_TRUE(save_tensors(folder / "w.safetensors", tensors).ok());
  const WeightsSource source = open_weights(folder / "w.safetensors");
  EXPECT_TRUE(source.notes.empty());
  EXPECT_NE(message_of([&] {
              copy_weights(source, record_of("lenet"), false, *lenet(2), {}, {});
            }).find("1 missing: conv1.weight; 1 unexpected: module.conv1.weight"),
            std::string::npos);
}

// "net." may be what a model itself is made of.
TEST(WeightsSource, AFileThatSaysItsModelKeepsThatModelsNames) {
  ScratchFolder folder;
  std::vector<NamedTensor> tensors = lenet(1)->state_dict();
  for (NamedTensor& tensor : tensors) tensor.name = "net." + tensor.name;
  ModelState state;
  state.model = "own";
  state.arguments = {.classes = 2, .channels = 1, .height = 28, .width = 28};
  state.classes = {"a", "b"};
  ASSERT_TRUE(save_tensors(folder / "w.safetensors", tensors, weights_metadata(state)).ok());
  const WeightsSource source = open_weights(folder / "w.safetensors");
  ASSERT_TRUE(source.state.has_value());
  EXPECT_EQ(source.shapes.front().name, tensors.front().name);
}

TEST(WeightsSource, AnotherModelsTensorsNameTheModelThatTheyFit) {
  ScratchFolder folder;
  save_lenet(folder / "w.safetensors");
  const WeightsSource source = open_weights(folder / "w.safetensors");
  const auto mlp = record_of("mlp").build({.classes = 10, .channels = 1, .height = 28, .width = 28});
  const std::string said = message_of([&] { copy_weights(source, record_of("mlp"), false, *mlp, {}, {}); });
  for (const char* word :
       {"[weights]", "w.safetensors", "this mlp", "unexpected: conv1", "fc1.weight", "--model lenet"}) {
    EXPECT_NE(said.find(word), std::string::npos) << said;
  }
}

TEST(WeightsSource, OtherClassesAreToldAndTheHeadMayStay) {
  ScratchFolder folder;
  save_lenet(folder / "w.safetensors");
  const WeightsSource source = open_weights(folder / "w.safetensors");
  const auto model = lenet(2, 3);
  const std::string said =
      message_of([&] { copy_weights(source, record_of("lenet"), false, *model, {}, {}); });
  EXPECT_NE(said.find("fc3.weight [10,84] for [3,84]"), std::string::npos) << said;
  EXPECT_NE(said.find("same model with other classes"), std::string::npos) << said;
  const auto head = model->state_dict().back().tensor.to_doubles();
  copy_weights(source, record_of("lenet"), true, *model, {}, {});
  EXPECT_EQ(model->state_dict().back().tensor.to_doubles(), head);
  EXPECT_EQ(model->state_dict().front().tensor.to_doubles(),
            lenet(1)->state_dict().front().tensor.to_doubles());
}

TEST(WeightsSource, AnotherSizeOfImagesIsToldAndANewHeadIsProposedWhereItHelps) {
  ScratchFolder folder;
  save_lenet(folder / "w.safetensors");
  const auto said = [&](const WeightsSource& source, const ModelArguments& arguments, bool keep_head) {
    const auto model = record_of("lenet").build(arguments);
    return message_of(
        [&] { copy_weights(source, record_of("lenet"), keep_head, *model, arguments, {}, "; RESET"); });
  };
  const ModelArguments larger{.classes = 10, .channels = 1, .height = 40, .width = 40};
  const ModelArguments others{.classes = 3, .channels = 1, .height = 28, .width = 28};
  const ModelArguments both{.classes = 3, .channels = 1, .height = 40, .width = 40};
  WeightsSource source = open_weights(folder / "w.safetensors");
  const std::string another = "same model with other channels or for another image size";
  EXPECT_TRUE(said(source, larger, false).ends_with(another)) << said(source, larger, false);
  EXPECT_TRUE(said(source, both, true).ends_with(another)) << said(source, both, true);
  EXPECT_TRUE(said(source, both, false).ends_with(another + "; RESET")) << said(source, both, false);
  EXPECT_TRUE(said(source, others, false).ends_with("same model with other classes; RESET"))
      << said(source, others, false);
  source.state.emplace();
  source.state->model = "lenet";
  source.state->arguments = {.classes = 10, .channels = 1, .height = 28, .width = 28};
  const std::string sizes = "same model for images of 28x28x1, got 40x40x1";
  EXPECT_TRUE(said(source, larger, false).ends_with(sizes)) << said(source, larger, false);
  EXPECT_TRUE(said(source, both, true).ends_with(sizes)) << said(source, both, true);
  EXPECT_TRUE(said(source, both, false).ends_with(sizes + "; RESET")) << said(source, both, false);
}

TEST(WeightsSource, TheFittingModelAndItsArgumentsFollowFromTheShapes) {
  for (const char* name : {"resnet18_cifar", "vit_small_cifar"}) {
    const engine::ModelRecord& record = record_of(name);
    const auto model = record.build(
        {.classes = 7, .channels = 2, .height = record.default_size, .width = record.default_size});
    std::vector<engine::NamedShape> shapes;
    for (const NamedTensor& tensor : model->state_dict())
      shapes.push_back({tensor.name, tensor.tensor.shape()});
    EXPECT_EQ(fitting_model(shapes, {}), name);
    EXPECT_EQ(arguments_from(shapes, record)->classes, 7);
    EXPECT_EQ(arguments_from(shapes, record)->channels, 2);
  }
  EXPECT_FALSE(arguments_from(std::vector<engine::NamedShape>{{"x", {3}}}, record_of("lenet")).has_value());
}

TEST(WeightsSource, PublishedWeightsHaveTheirPublishersNormalisation) {
  WeightsSource source;
  source.path = "f.safetensors";
  const auto& ops = augment::OpRegistry::builtin();
  const WeightsNormalization resnet = normalization_of(source, record_of("resnet50"), 3, ops);
  EXPECT_EQ(resnet.op, "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)");
  EXPECT_NE(resnet.origin.find("torchvision"), std::string::npos);
  EXPECT_EQ(normalization_of(source, record_of("resnet50"), 1, ops).op, "");
  EXPECT_EQ(normalization_of(source, record_of("resnet18_cifar"), 3, ops).op, "");
}

TEST(WeightsSource, ACapturedDetectorsNormalisationIsItsOwn) {
  WeightsSource source;
  source.path = "f.dlm";
  const engine::PublishedWeights own = {"", "normalize(mean=0.5,std=0.25)", 64};
  engine::ModelRecord record = record_of("resnet50");
  record.published = &own;
  const WeightsNormalization found = normalization_of(source, record, 3, augment::OpRegistry::builtin());
  EXPECT_EQ(found.op, own.normalize);
  EXPECT_NE(found.origin.find("captured"), std::string::npos);
  EXPECT_EQ(found.origin.find("names"), std::string::npos);
}

TEST(WeightsSource, ACheckpointsNormalisationGoesBeforeItsPublishers) {
  WeightsSource source;
  source.path = "runs/a";
  source.state.emplace();
  source.state->val_augment = "resize(32) normalize(mean=0.5:0.25:0.125,std=0.5)";
  const WeightsNormalization found =
      normalization_of(source, record_of("resnet50"), 3, augment::OpRegistry::builtin());
  EXPECT_NE(found.origin.find("the checkpoint's"), std::string::npos);
  BatchPrep wanted, got;
  ASSERT_TRUE(augment::Chain::parse(source.state->val_augment)->fill_prep(wanted).ok());
  ASSERT_TRUE(augment::Chain::parse(found.op)->fill_prep(got).ok());
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_EQ(got.scale[c], wanted.scale[c]);
    EXPECT_EQ(got.bias[c], wanted.bias[c]);
  }
}

}  // namespace dlpipe::run

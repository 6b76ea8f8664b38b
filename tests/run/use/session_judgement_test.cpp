// What a session's checkpoint is good for: evaluation, prediction, fine-tuning.
#include "dlpipe/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "dlpipe/log.h"
#include "dlpipe/predictor.h"
#include "run/input/dataset.h"
#include "run/record/checkpoint.h"
#include "run/use/loaded_model.h"
#include "run/use/predict.h"
#include "tests/run/session_fixture.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using test::ScratchFolder;
using test::SessionTest;
using test::text_of;

TEST_F(SessionTest, EvaluationOfTheCheckpointGivesTheValidationsNumbers) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.val_every = "1epoch";
  const TrainOutcome outcome = Session(c).train();
  const Evaluation evaluation =
      evaluate_dataset({.model = {.weights = runs / "a/checkpoints/last"}, .data = data_.split, .batch = 16});
  ASSERT_TRUE(outcome.last_validation.has_value());
  EXPECT_EQ(evaluation.report.loss, outcome.last_validation->result.loss);
  EXPECT_EQ(evaluation.report.value("top1"), outcome.last_validation->result.value("top1"));
  EXPECT_EQ(evaluation.report.samples, 80);
}

// Evaluation and prediction of a run say the same of the same images.
static void expect_equal_judgement(const std::string& run, const test::SampleData& data) {
  // The validation set's own images, in its order, through evaluation...
  std::vector<double> wanted;  // probability of the class that evaluation found greatest
  std::vector<int64_t> wanted_class;
  const Evaluation evaluation = evaluate_dataset(
      {.model = {.weights = run}, .data = data.val, .batch = 16}, {},
      [&](const Batch& batch, std::span<const float> logits, int64_t classes) {
        for (int64_t n = 0; n < batch.count; ++n) {
          const auto row = logits.subspan(static_cast<size_t>(n * classes), static_cast<size_t>(classes));
          const auto top = std::max_element(row.begin(), row.end()) - row.begin();
          wanted_class.push_back(top);
          wanted.push_back(std::exp(-engine::cross_entropy_of(row, top)));
        }
      });
  // ... and as files through prediction. Records hold their file's path.
  const auto dataset = value_or_throw(data::Dataset::open(data.val));
  const auto reader = value_or_throw(dataset->reader());
  std::vector<ImageFile> files;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const auto record = value_or_throw(reader->record(i));
    const auto path = value_or_throw(data::field_bytes(*dataset, record, "path"));
    files.push_back(
        {data.jpegs + "/" + std::string(reinterpret_cast<const char*>(path.data()), path.size())});
  }
  Predictor predictor({.model = {.weights = run}, .batch = 16});
  std::vector<Prediction> predictions;
  predictor.predict(files, [&](const Prediction& prediction) {
    predictions.push_back(prediction);
    return true;
  });
  ASSERT_EQ(predictions.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_EQ(predictions[i].error, "");
    EXPECT_EQ(predictions[i].top[0].first,
              evaluation.model.state.classes[static_cast<size_t>(wanted_class[i])]);
    EXPECT_NEAR(predictions[i].top[0].second, wanted[i], 1e-6);
  }

  int64_t seen = 0;
  predictor.predict(files, [&](const Prediction&) { return ++seen < 3; });
  EXPECT_EQ(seen, 3) << "nobody wants more";
  // A batch is no larger than what there is: this one would take 100 GB.
  Predictor large({.model = {.weights = run}, .batch = 10'000'000});
  large.predict(std::span(files).first(1), [&](const Prediction& prediction) {
    EXPECT_NEAR(prediction.top[0].second, wanted[0], 1e-5);
    return true;
  });
}

TEST_F(SessionTest, PredictionEqualsEvaluationOnTheSameImages) {
  ScratchFolder runs;
  for (const std::string tta : {"none", "flip", "flip_translate"}) {
    SCOPED_TRACE(tta);
    TrainConfig c = config(runs / tta);
    c.tta = tta;
    Session(c).train();
    expect_equal_judgement(c.out, data_);
  }
}

/// The run's weights with the first `count` numbers of the bias `name` NaN, as a training that diverged leaves them.
static std::string nan_weights(const std::string& run, const std::string& name, int64_t count,
                               const std::string& path) {
  WeightsSource source = open_weights(run);
  int64_t found = 0;
  for (engine::NamedTensor& tensor : source.checkpoint_tensors) {
    if (tensor.name != name) continue;
    ++found;
    std::vector<float> bias(static_cast<size_t>(tensor.tensor.elements()), 0);
    std::fill_n(bias.begin(), count, std::numeric_limits<float>::quiet_NaN());
    tensor.tensor = engine::Tensor::empty({tensor.tensor.elements()});
    tensor.tensor.copy_from_host(bias.data(), bias.size() * sizeof(float));
  }
  EXPECT_EQ(found, 1) << name;
  throw_if_error(save_tensors(path, source.checkpoint_tensors, weights_metadata(*source.state)));
  return path;
}

TEST_F(SessionTest, AModelThatAnswersNanHasNoClassForAnImage) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.max_steps = 1;
  Session(c).train();
  const std::string some = nan_weights(runs / "a", "fc3.bias", 3, runs / "some.safetensors");
  const std::string all = nan_weights(runs / "a", "fc3.bias", 10, runs / "all.safetensors");
  const ImageFile image{data_.jpegs + "/ring/00000.jpg"};
  int64_t samples = 0;
  for (const std::string& weights : {some, all}) {
    Predictor predictor({.model = {.weights = weights}});
    predictor.predict({&image, 1}, [&](const Prediction& prediction) {
      ++samples;
      const formats::Json line = to_json(prediction);
      EXPECT_NE(line["error"].as_string().find("NaN"), std::string::npos) << line.dump();
      EXPECT_TRUE(line["class"].is_null());
      EXPECT_TRUE(line["probability"].is_null());
      EXPECT_TRUE(line["top"].items().empty());
      return true;
    });
    std::vector<float> probabilities;
    try {
      predictor.append_probabilities({&image, 1}, 1, 5, probabilities);
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNonfinite);
      EXPECT_NE(std::string(error.what()).find("image 5: the model returns NaN"), std::string::npos)
          << error.what();
    }
    EXPECT_TRUE(probabilities.empty());
  }
  EXPECT_EQ(samples, 2);

  EvaluateOptions options{.model = {.weights = all}, .data = data_.val, .batch = 16};
  options.on_sample = [&](const SampleAnswer& answer, const std::vector<std::string>& classes) {
    ++samples;
    const formats::Json json = to_json(answer, classes);
    EXPECT_TRUE(json["predicted"].is_null());
    EXPECT_TRUE(json["probability"].is_null());
    EXPECT_TRUE(json["top"].items().empty());
  };
  EXPECT_TRUE(std::isnan(evaluate_dataset(options).report.loss));
  EXPECT_EQ(samples, 2 + 80);
}

TEST_F(SessionTest, AModelThatAnswersNanWritesNoText) {
  ScratchFolder folder;
  TrainConfig c = config(folder / "run");
  c.data = test::make_verse_data(folder.path(), 100);
  c.model = "gpt_char_tiny";
  c.augment = "";
  c.max_steps = 1;
  Session(c).train();
  for (const double temperature : {0.0, 1.0}) {
    std::string written;
    try {
      generate({.checkpoint = nan_weights(folder / "run", "norm.bias", 1, folder / "nan.safetensors"),
                .prompt = "one",
                .tokens = 3,
                .temperature = temperature},
               [&](const std::string& token) {
                 written += token;
                 return true;
               });
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kNonfinite) << error.what();
    }
    EXPECT_EQ(written, "one");
  }
}

// So that evaluation gives the validation's numbers to the last bit.
TEST_F(SessionTest, ARunsKernelsAreTakenHoweverItsCheckpointIsNamed) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.max_steps = 1;
  Session(c).train();
  std::ofstream(runs / "a/kernels.json") << "corrupt: that is said where it is read";
  static std::string logged;
  set_log_function([](LogLevel, std::string_view text) { logged += text; });
  const fs::path before = fs::current_path();
  for (const char* name :
       {"checkpoints/last", "checkpoints/last/", "checkpoints/last/model.safetensors", "."}) {
    logged.clear();
    fs::current_path(runs / (std::string(name) == "." ? "a/checkpoints/last" : "a"));
    load_model({.weights = name});
    EXPECT_NE(logged.find("a/kernels.json is not used"), std::string::npos) << name << ": " << logged;
  }
  fs::current_path(before);
  set_log_function(nullptr);
}

/// The normalize(...) that an expression ends with.
static std::string normalization_of_chain(const std::string& augment) {
  return augment.substr(augment.find("normalize("));
}

/// Collects what a person is told.
class KeptNotes : public TrainObserver {
 public:
  void on_note(std::string_view text) override { text_ += std::string(text) + "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

TEST_F(SessionTest, WeightsKeepTheNormalisationThatTheyWereTrainedWith) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.epochs = 0.1;
  c.augment += " normalize(mean=0.25:0.5:0.75,std=0.5:0.25:0.125)";
  Session first(c);
  first.train();
  const std::string written = normalization_of_chain(first.validation_augment());
  ASSERT_NE(written, "");

  TrainConfig tuned = config(runs / "b");
  tuned.epochs = 0.1;
  tuned.init = runs / "a";
  KeptNotes notes;
  {
    Session session(tuned, {}, &notes);
    session.train();
    EXPECT_NE(session.config().augment.find(written), std::string::npos) << session.config().augment;
    EXPECT_NE(session.validation_augment().find(written), std::string::npos) << session.validation_augment();
  }
  EXPECT_NE(notes.text().find("normalisation: " + written), std::string::npos) << notes.text();
  EXPECT_NE(text_of(runs / "b/config.toml").find(written), std::string::npos) << "a resumed run has it, too";

  tuned.out = runs / "c";
  tuned.augment += " normalize(mean=0.1,std=0.2)";
  EXPECT_EQ(Session(tuned).config().augment.find(written), std::string::npos) << "what is given wins";

  // A file alone says nothing.
  fs::copy(runs / "a/checkpoints/last/model.safetensors", runs / "alone.safetensors");
  TrainConfig alone = config(runs / "d");
  alone.init = runs / "alone.safetensors";
  KeptNotes told;
  EXPECT_EQ(Session(alone, {}, &told).config().augment, alone.augment);
  EXPECT_NE(told.text().find("normalisation: the dataset's own"), std::string::npos) << told.text();
}

TEST_F(SessionTest, TorchvisionsWeightsTakeTorchvisionsNormalisation) {
  ScratchFolder runs;
  const auto record = value_or_throw(engine::ModelRegistry::builtin().find("resnet18"));
  const auto model = record->build({.classes = static_cast<int64_t>(10), .height = 32, .width = 32});
  throw_if_error(save_tensors(runs / "resnet18.safetensors", model->state_dict()));
  TrainConfig c = config(runs / "a");
  c.model = "resnet18";
  c.init = runs / "resnet18.safetensors";
  c.augment = "rrc(32)";
  KeptNotes notes;
  const Session session(c, {}, &notes);
  EXPECT_EQ(session.config().augment, "rrc(32) normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)");
  EXPECT_NE(notes.text().find("torchvision's"), std::string::npos) << notes.text();
}

TEST_F(SessionTest, FineTunesFromWeightsWithAFreshHead) {
  ScratchFolder runs;
  TrainConfig c = config(runs / "a");
  c.epochs = 0.5;
  Session(c).train();
  TrainConfig tuned = c;
  tuned.out = runs / "b";
  tuned.init = runs / "a/checkpoints/last/model.safetensors";
  tuned.reset_head = true;
  tuned.freeze = {"conv1.*"};
  Session(tuned).train();
  const auto before = value_or_throw(load_checkpoint(runs / "a/checkpoints/last", false));
  const auto after = value_or_throw(load_checkpoint(runs / "b/checkpoints/last", false));
  for (size_t i = 0; i < before.tensors.model.size(); ++i) {
    const auto& name = before.tensors.model[i].name;
    const bool is_equal =
        hash_tensors({&before.tensors.model[i], 1}, 0) == hash_tensors({&after.tensors.model[i], 1}, 0);
    EXPECT_EQ(is_equal, name.rfind("conv1.", 0) == 0) << name;
  }
}

}  // namespace dlpipe::run

// Prediction of whole image files from bare weights with torchvision's names, against torchvision itself:
// decoding, resize, crop, normalisation and model together.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "dlpipe/codec.h"
#include "dlpipe/models.h"
#include "dlpipe/predictor.h"
#include "io/formats/atomic_file.h"
#include "run/record/checkpoint.h"
#include "tests/io/formats/scratch.h"
#include "tests/parity/formula.h"
#include "tests/parity/golden.h"

namespace dlpipe::engine::parity {

struct Size {
  int width, height;
};
constexpr Size kImages[] = {{300, 260}, {224, 400}, {97, 131}, {640, 480}};  // as in make_golden.py

/// Squares of 16 pixels in drawn colours, as a PNG.
static void write_image(const std::string& path, const std::string& name, const Size& size) {
  constexpr int kSquare = 16;
  const int rows = (size.height + kSquare - 1) / kSquare;
  const int columns = (size.width + kSquare - 1) / kSquare;
  const std::vector<uint32_t> drawn = words(name, int64_t{3} * rows * columns);
  std::vector<uint8_t> pixels;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      for (int c = 0; c < 3; ++c) {
        const auto square = static_cast<size_t>((y / kSquare) * columns + x / kSquare);
        pixels.push_back(static_cast<uint8_t>(drawn[square * 3 + static_cast<size_t>(c)] >> 24));
      }
    }
  }
  const ConstImageView view{pixels.data(), size.width, size.height, 3,
                            static_cast<ptrdiff_t>(size.width) * 3};
  const auto png = value_or_throw(data::encode_png(view));
  throw_if_error(formats::write_file(path, {reinterpret_cast<const char*>(png.data()), png.size()}));
}

TEST(PredictParity, BareWeightsOfAResNetGiveTorchvisionsProbabilities) {
  const Golden golden("predict_resnet18");
  test::ScratchFolder folder;
  const auto model = value_or_throw(ModelRegistry::builtin().find("resnet18"))
                         ->build({.classes = 10, .channels = 3, .height = 224, .width = 224});
  set_weights(*model);
  ASSERT_TRUE(run::save_tensors(folder / "w.safetensors", model->state_dict()).ok());
  std::vector<run::ImageFile> files;
  for (size_t i = 0; i < std::size(kImages); ++i) {
    files.push_back({folder / ("image" + std::to_string(i) + ".png")});
    write_image(files.back().path, "picture." + std::to_string(i), kImages[i]);
  }
  run::Predictor predictor({.model = {.weights = folder / "w.safetensors", .model = "resnet18"},
                            .batch = 4,
                            .threads = 1,
                            .top = 10});
  EXPECT_EQ(predictor.model().state.val_augment,
            "resize(256) center_crop(224) normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)");
  // PyTorch's own f32 and f64 are 2e-6 apart; sums in another order may be a few times that.
  constexpr double kTolerance = 1e-5;
  size_t i = 0;
  predictor.predict(files, [&](const run::Prediction& prediction) {
    const std::vector<double>& wanted = golden.at("log_probabilities." + std::to_string(i++) + ".f64");
    EXPECT_EQ(prediction.error, "");
    EXPECT_EQ(prediction.top.size(), wanted.size());
    for (const auto& [name, probability] : prediction.top)
      EXPECT_NEAR(std::log(probability), wanted.at(std::stoul(name)), kTolerance)
          << prediction.path << " " << name;
    return true;
  });
  EXPECT_EQ(i, files.size());
}

}  // namespace dlpipe::engine::parity

// Batches as normalised numbers: what BatchPrep says of the bytes, done in the loader.
#include "pipeline/plan/batch_pixels.h"

#include <gtest/gtest.h>

#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

class FloatPixelsTest : public DatasetTest<FloatPixelsTest> {
 public:
  static void write_datasets() { write_drawn_dataset(*dir_ / "d", {.count = 43, .truncated = {9}}); }

 protected:
  static LoaderOptions options() {
    LoaderOptions options;
    options.data = *dir_ / "d";
    options.augment = "rrc(17x12) hflip normalize(mean=0.4:0.5:0.6,std=0.2:0.25:0.3)";
    options.batch = 8;
    options.threads = 2;
    options.epochs = 2;
    return options;
  }
  template <class T>
  static T number_of(const BatchPrep& prep, const uint8_t* all, int64_t sample, int64_t i, int64_t width,
                     int64_t channels, int64_t sample_size) {
    float value = all[sample * sample_size + i];
    if (!prep.mix.empty() && prep.mix[static_cast<size_t>(sample)].partner >= 0) {
      const SampleMix& mix = prep.mix[static_cast<size_t>(sample)];
      const float other = all[mix.partner * sample_size + i];
      const int x = static_cast<int>(i / channels % width);
      const int y = static_cast<int>(i / channels / width);
      const Region& box = mix.box;
      if (box.width == 0) {
        value = mix.lambda * value + (1.0f - mix.lambda) * other;
      } else if (x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height) {
        value = other;
      }
    }
    const auto c = static_cast<size_t>(i % channels);
    return T(prep.scale[c] * value + prep.bias[c]);
  }
  /// Every number of every batch is what the loader of bytes says it is.
  template <class T>
  static void expect_numbers(LoaderOptions o, DType dtype) {
    const auto bytes = open_loader(o);
    o.image_dtype = dtype;
    o.threads = 3;
    const auto numbers = open_loader(o);
    EXPECT_EQ(numbers->schema()[0].dtype, dtype);
    read_side_by_side(*bytes, *numbers, [](const Batch& one, const Batch& other) {
      EXPECT_EQ(other.chain, one.chain);
      EXPECT_TRUE(std::ranges::equal(one.sample_ids, other.sample_ids));
      EXPECT_EQ(other.prep->scale, BatchPrep().scale);
      EXPECT_TRUE(other.prep->mix.empty());
      EXPECT_EQ(other.mixed.size(), one.prep->mix.size());
      const Shape& shape = one.fields[0].spec->shape;
      const auto* pixels = reinterpret_cast<const uint8_t*>(one.fields[0].data);
      const auto* got = reinterpret_cast<const T*>(other.fields[0].data);
      for (int64_t sample = 0; sample < one.capacity; ++sample) {
        const bool is_there = one.weight[static_cast<size_t>(sample)] > 0;
        for (int64_t i = 0; i < shape.elements(); ++i) {
          const T expected =
              is_there ? number_of<T>(*one.prep, pixels, sample, i, shape[1], shape[2], shape.elements())
                       : T(0.0f);
          ASSERT_EQ(got[sample * shape.elements() + i], expected) << "sample " << sample << " at " << i;
        }
      }
    });
  }
};

TEST_F(FloatPixelsTest, EveryNumberIsWhatPrepSaysOfTheByte) {
  expect_numbers<float>(options(), DType::kF32);
  expect_numbers<BFloat16>(options(), DType::kBF16);
  LoaderOptions o = options();
  o.hash_pixels = true;
  expect_numbers<Float16>(o, DType::kF16);
}

TEST_F(FloatPixelsTest, GreyAndTheDatasetsOwnStatisticsToo) {
  LoaderOptions o = options();
  o.channels = 1;
  o.augment = "rrc(17x12) hflip";
  expect_numbers<float>(o, DType::kF32);
}

TEST_F(FloatPixelsTest, AGreyDatasetsStatisticsServeAllChannels) {
  write_drawn_dataset(*dir_ / "grey", {.count = 16, .grey = true});
  LoaderOptions o = options();
  o.data = *dir_ / "grey";
  o.augment = "rrc(17x12) hflip normalize";
  o.image_dtype = DType::kF32;
  const auto loader = open_loader(o);
  ASSERT_EQ(loader->dataset().pixel_stats().channels, 1);
  read_all(*loader, [](const Batch& batch) {
    const auto* pixel = reinterpret_cast<const float*>(batch.fields[0].data);
    for (int64_t i = 0; i < batch.count * 17 * 12; ++i, pixel += 3) {
      ASSERT_EQ(pixel[1], pixel[0]) << i;
      ASSERT_EQ(pixel[2], pixel[0]) << i;
    }
  });
}

TEST_F(FloatPixelsTest, DroppedSamplesAndPaddingAreZeros) {
  LoaderOptions o = validation_options(options());
  o.augment = "resize(17x12)";
  expect_numbers<float>(o, DType::kF32);
}

TEST_F(FloatPixelsTest, MixupAndCutmixAreDoneAsTheEngineDoesThem) {
  for (const auto& [mixup, cutmix] : {std::pair(0.4, 0.0), std::pair(0.0, 1.0), std::pair(0.4, 1.0)}) {
    LoaderOptions o = options();
    o.mixup = mixup;
    o.cutmix = cutmix;
    expect_numbers<float>(o, DType::kF32);
    expect_numbers<BFloat16>(o, DType::kBF16);
  }
}

TEST_F(FloatPixelsTest, AStdThatMakesThemInfiniteIsRefused) {
  LoaderOptions o = options();
  o.augment = "rrc(17x12) normalize(mean=0, std=0.00001)";
  o.image_dtype = DType::kF32;
  EXPECT_TRUE(Loader::open(o).ok());
  o.image_dtype = DType::kF16;
  const Status refused = Loader::open(o).status();
  EXPECT_EQ(refused.code(), ErrorCode::kMisuse);
  EXPECT_NE(refused.message().find("f16"), std::string::npos) << refused.message();
}

TEST_F(FloatPixelsTest, OtherDtypesAreRefused) {
  LoaderOptions o = options();
  o.image_dtype = DType::kI32;
  EXPECT_NE(Loader::open(o).status().message().find("--dtype i32"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::pipeline

// What a loader gives, and what it refuses.
#include "dlpipe/loader.h"
#include "pipeline/plan/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "base/machine.h"
#include "dlpipe/augment.h"
#include "dlpipe/augment_op.h"
#include "dlpipe/codec.h"
#include "dlpipe/random.h"
#include "tests/base/grouping_locale.h"
#include "tests/pipeline/loader_fixture.h"

namespace dlpipe::pipeline {
namespace {

TEST_F(LoaderTest, BatchesHoldTheSamplesTheyName) {
  LoaderOptions o = options("square");
  const auto loader = open_loader(o);
  const auto reader = value_or_throw(loader->dataset().reader());
  data::ImageDecoder decoder;
  std::set<int64_t> seen;
  int64_t index = 0;
  while (const auto batch = value_or_throw(loader->next())) {
    EXPECT_EQ(batch->epoch, 0);
    EXPECT_EQ(batch->index, index++);
    EXPECT_EQ(batch->count, 4);
    EXPECT_EQ(batch->capacity, 4);
    EXPECT_EQ(batch->ready_event, nullptr);
    ASSERT_NE(batch->prep, nullptr);
    const BatchField& image = *batch->field("image");
    const BatchField& label = *batch->field("label");
    EXPECT_EQ(image.spec->shape, (Shape{24, 24, 3}));
    EXPECT_EQ(image.spec->dtype, DType::kU8);
    EXPECT_EQ(label.spec->dtype, DType::kI64);
    EXPECT_EQ(label.spec->shape.rank(), 0);
    EXPECT_EQ(batch->field("path"), nullptr) << "only where it is asked for";
    for (int64_t i = 0; i < batch->count; ++i) {
      const int64_t sample = batch->sample_ids[static_cast<size_t>(i)];
      EXPECT_TRUE(seen.insert(sample).second);
      EXPECT_EQ(batch->weight[static_cast<size_t>(i)], 1.0f);
      int64_t got = -1;
      std::memcpy(&got, label.data + i * 8, 8);
      EXPECT_EQ(got, sample % 3);
      float meta[3];
      std::memcpy(meta, batch->field("meta")->data + i * 12, 12);
      EXPECT_EQ(meta[0], static_cast<float>(sample));
      EXPECT_EQ(meta[1], static_cast<float>(2 * sample));
      std::vector<uint8_t> pixels(24 * 24 * 3);
      const auto bytes =
          value_or_throw(data::image_bytes(loader->dataset(), value_or_throw(reader->record(sample))));
      throw_if_error(decoder.decode(bytes, {0, 0, 24, 24}, {pixels.data(), 24, 24, 3, 72}));
      EXPECT_EQ(0, std::memcmp(pixels.data(), image.data + i * 24 * 24 * 3, pixels.size()))
          << "sample " << sample;
    }
    throw_if_error(loader->release(*batch));
  }
  EXPECT_EQ(index, 2);
  EXPECT_EQ(seen.size(), 8u);
}

TEST_F(LoaderTest, EveryEpochOfTrainingIsAnotherOrderOfAllSamples) {
  LoaderOptions o = options();
  o.batch = 5;
  o.epochs = 4;
  const auto loader = open_loader(o);
  std::map<int64_t, std::vector<int64_t>> order;
  while (const auto batch = value_or_throw(loader->next())) {
    EXPECT_EQ(batch->last_in_epoch, batch->index == 5);
    order[batch->epoch].insert(order[batch->epoch].end(), batch->sample_ids.begin(), batch->sample_ids.end());
    throw_if_error(loader->release(*batch));
  }
  ASSERT_EQ(order.size(), 4u);
  for (const auto& [epoch, samples] : order) {
    EXPECT_EQ(std::set<int64_t>(samples.begin(), samples.end()).size(), 30u);
    if (epoch > 0) {
      EXPECT_NE(samples, order[epoch - 1]);
    }
  }
}

TEST_F(LoaderTest, ValidationGivesEverySampleOnceInFileOrderAndPadsTheLastBatch) {
  LoaderOptions o = validation_options(options());
  o.batch = 8;
  const auto loader = open_loader(o);
  EXPECT_EQ(loader->batches_per_epoch(), 4);
  EXPECT_EQ(loader->samples_per_epoch(), 30);
  int64_t next = 0;
  while (const auto batch = value_or_throw(loader->next())) {
    for (int64_t i = 0; i < batch->capacity; ++i) {
      const auto at = static_cast<size_t>(i);
      if (i < batch->count) {
        EXPECT_EQ(batch->sample_ids[at], next++);
        continue;
      }
      EXPECT_EQ(batch->sample_ids[at], -1);
      EXPECT_EQ(batch->weight[at], 0.0f);
      const size_t bytes = batch->fields[0].spec->sample_bytes();
      const auto* pixels = reinterpret_cast<const uint8_t*>(batch->fields[0].data) + bytes * at;
      EXPECT_TRUE(std::all_of(pixels, pixels + bytes, [](uint8_t p) { return p == 0; }));
    }
    throw_if_error(loader->release(*batch));
  }
  EXPECT_EQ(next, 30);
}

TEST_F(LoaderTest, APaddedRankRepeatsSamplesWithoutWeight) {
  std::multiset<int64_t> weighed;
  for (int rank = 0; rank < 4; ++rank) {
    LoaderOptions o = validation_options(options());
    o.batch = 7;  // 28 and 2 of all ranks' 30
    o.world = 4;
    o.rank = rank;
    o.pad_last = true;
    const auto loader = open_loader(o);
    while (const auto batch = value_or_throw(loader->next())) {
      EXPECT_EQ(batch->count, batch->index == 0 ? 7 : 1);
      for (size_t i = 0; i < static_cast<size_t>(batch->count); ++i) {
        EXPECT_GE(batch->sample_ids[i], 0);
        if (batch->weight[i] > 0) weighed.insert(batch->sample_ids[i]);
      }
      throw_if_error(loader->release(*batch));
    }
  }
  EXPECT_EQ(weighed.size(), 30u);
  EXPECT_EQ(std::set<int64_t>(weighed.begin(), weighed.end()).size(), 30u);
}

TEST_F(LoaderTest, ChosenSamplesAloneAreUsedAndArePartOfTheState) {
  LoaderOptions o = options();
  o.batch = 2;
  o.epochs = 3;
  o.samples = std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{29, 4, 11, 4});
  const auto loader = open_loader(o);
  std::map<int64_t, std::multiset<int64_t>> seen;
  std::vector<SourceState> states;
  while (const auto batch = value_or_throw(loader->next())) {
    seen[batch->epoch].insert(batch->sample_ids.begin(), batch->sample_ids.end());
    states.push_back(loader->state());
    throw_if_error(loader->release(*batch));
  }
  for (int64_t epoch = 0; epoch < 3; ++epoch) EXPECT_EQ(seen[epoch], (std::multiset<int64_t>{4, 4, 11, 29}));
  o.samples = std::make_shared<const std::vector<int64_t>>(*o.samples);
  throw_if_error(open_loader(o)->seek(states[2]));
  o.samples = std::make_shared<const std::vector<int64_t>>(std::vector<int64_t>{29, 4, 11, 5});
  EXPECT_EQ(open_loader(o)->seek(states[2]).code(), ErrorCode::kMisuse);
  for (const std::vector<int64_t>& none : {std::vector<int64_t>{}, {3, 30}, {-1}}) {
    o.samples = std::make_shared<const std::vector<int64_t>>(none);
    EXPECT_EQ(Loader::open(o).status().code(), ErrorCode::kMisuse);
  }
}

TEST_F(LoaderTest, RanksOfAValidationMayHaveAnEmptyLastBatch) {
  int64_t samples = 0;
  int64_t batches = -1;
  for (int rank = 0; rank < 4; ++rank) {
    LoaderOptions o = validation_options(options());
    o.world = 4;
    o.rank = rank;
    o.batch = 7;
    o.limit = 29;  // one sample is left for the last batch of four ranks
    const auto loader = open_loader(o);
    int64_t mine = 0;
    while (const auto batch = value_or_throw(loader->next())) {
      samples += batch->count;
      ++mine;
      throw_if_error(loader->release(*batch));
    }
    if (batches < 0) batches = mine;
    EXPECT_EQ(mine, batches);
  }
  EXPECT_EQ(samples, 29);
  EXPECT_EQ(batches, 2);
}

TEST_F(LoaderTest, OneSampleDatasetGivesThatSampleForever) {
  LoaderOptions o = options("one");
  o.batch = 1;
  o.epochs = 5;
  const auto loader = open_loader(o);
  const auto hashes = read_hashes(*loader);
  EXPECT_EQ(hashes.size(), 5u);
}

TEST_F(LoaderTest, ImagesOfOnePixelAreAsGoodAsOthers) {
  const std::string dots = *dir_ / "dots";
  write_drawn_dataset(dots, {.count = 8, .layout = data::ImageLayout::kRaw, .size = 1});
  LoaderOptions o = options();
  o.data = dots;
  o.augment = "resize(4x4)";
  const auto loader = open_loader(o);
  EXPECT_EQ(read_hashes(*loader).size(), 2u);
  EXPECT_EQ(loader->stats().substituted, 0);
}

TEST_F(LoaderTest, ABatchLargerThanTheDatasetIsKeptOrRefused) {
  LoaderOptions o = options("square");
  o.batch = 64;
  EXPECT_NE(error_of(o).find("fewer than one batch of 64"), std::string::npos);
  const std::string most = std::to_string(value_or_throw(data::Dataset::open(o.data))->size());
  EXPECT_NE(error_of(o).find(concat("use --batch ", most, " or less")), std::string::npos) << error_of(o);
  LoaderOptions two = o;  // Python's batch is a rank's, train's that of all
  two.world = 2;
  EXPECT_NE(error_of(two).find("samples or less, which are 5 on each of 2 ranks"), std::string::npos)
      << error_of(two);
  o.last = LastBatch::kKeep;
  const auto loader = open_loader(o);
  const auto batch = value_or_throw(loader->next());
  ASSERT_TRUE(batch.has_value());
  EXPECT_EQ(batch->count, 10);
  EXPECT_EQ(batch->capacity, 64);
  EXPECT_TRUE(batch->last_in_epoch);
}

TEST_F(LoaderTest, LimitUsesASubsetDrawnFromTheWholeDatasetByTheSeed) {
  LoaderOptions o = options();
  o.limit = 9;
  o.batch = 3;
  o.seed = 2;
  const auto loader = open_loader(o);
  std::set<int64_t> seen;
  while (const auto batch = value_or_throw(loader->next())) {
    seen.insert(batch->sample_ids.begin(), batch->sample_ids.end());
    throw_if_error(loader->release(*batch));
  }
  const Subset subset(loader->dataset().size(), 9, 2);
  std::set<int64_t> expected;
  for (int64_t i = 0; i < 9; ++i) expected.insert(subset.sample(i));
  EXPECT_EQ(seen, expected);
  EXPECT_GE(*seen.rbegin(), loader->dataset().size() * 8 / 9) << "the last stretch gives one, too";
  EXPECT_EQ(loader->subset(), subset.to_string());
  const std::string id = loader->pipeline_id();
  o.seed = 3;
  EXPECT_NE(open_loader(o)->pipeline_id(), id) << "another subset is another pipeline";
}

TEST_F(LoaderTest, ThePipelinesIdIsThatOfAnyProgramsLocale) {
  LoaderOptions o = options();
  o.batch = 1200;
  o.last = LastBatch::kKeep;
  const std::string id = open_loader(o)->pipeline_id();
  const test::GroupingLocale grouping;
  EXPECT_EQ(open_loader(o)->pipeline_id(), id);
}

TEST_F(LoaderTest, GreyChannelsAndNormalisationComeThrough) {
  LoaderOptions o = options();
  o.channels = 1;
  o.augment = "rrc(16) normalize(0.5,0.25)";
  const auto loader = open_loader(o);
  const auto batch = value_or_throw(loader->next());
  EXPECT_EQ(batch->fields[0].spec->shape, (Shape{16, 16, 1}));
  EXPECT_FLOAT_EQ(batch->prep->scale[0], 1.0f / 255 / 0.25f);
  EXPECT_FLOAT_EQ(batch->prep->bias[0], -2.0f);
}

TEST_F(LoaderTest, ViewsAreOfOneSampleAndAugmentedEachByItself) {
  LoaderOptions o = options();
  o.views = 2;
  const auto loader = open_loader(o);
  EXPECT_EQ(loader->batches_per_epoch(), 7) << "of the samples, not of their views";
  std::set<int64_t> seen;
  int64_t equal = 0;
  while (const auto batch = value_or_throw(loader->next())) {
    ASSERT_EQ(batch->count, 8);
    const BatchField& image = *batch->field("image");
    const size_t bytes = image.spec->sample_bytes();
    for (size_t i = 0; i < 8; i += 2) {
      EXPECT_EQ(batch->sample_ids[i], batch->sample_ids[i + 1]);
      EXPECT_TRUE(seen.insert(batch->sample_ids[i]).second);
      equal += std::memcmp(image.data + i * bytes, image.data + (i + 1) * bytes, bytes) == 0 ? 1 : 0;
    }
    throw_if_error(loader->release(*batch));
  }
  EXPECT_EQ(seen.size(), 28u);
  EXPECT_EQ(equal, 0) << "two crops of one image";
  EXPECT_NE(loader->pipeline_id(), open_loader(options())->pipeline_id());
}

TEST_F(LoaderTest, RefusesOptionsByName) {
  const auto with = [](auto change) {
    LoaderOptions o = options();
    change(o);
    return error_of(o);
  };
  const auto expect = [](const std::string& message, const std::string& part) {
    EXPECT_EQ(message.rfind("[", 0), 0u) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect(with([](auto& o) { o.data.clear(); }), "--data");
  expect(with([](auto& o) { o.batch = 0; }), "--batch 0");
  expect(with([](auto& o) { o.threads = -1; }), "--threads -1");
  expect(with([](auto& o) { o.slots = 0; }), "--slots 0");
  expect(with([](auto& o) { o.rank = 1; }), "--rank 1");
  expect(with([](auto& o) { o.world = 0; }), "--world 0");
  expect(with([](auto& o) { o.epochs = 0; }), "--epochs 0");
  expect(with([](auto& o) { o.limit = 0; }), "--limit 0");
  expect(with([](auto& o) { o.channels = 2; }), "--channels 2");
  expect(with([](auto& o) { o.max_bad = -2; }), "--max-bad -2");
  expect(with([](auto& o) { o.max_pixels = 0; }), "--max-pixels 0");
  expect(with([](auto& o) { o.views = 0; }), "--views 0");
  expect(with([](auto& o) {
           o.views = 2;
           o.mixup = 0.5;
         }),
         "--views 2 does not work with --mixup");
  expect(with([](auto& o) {
           o.views = 2;
           o.augment = "one_of(alternating_flip | vflip)";
         }),
         "use hflip");
  expect(with([](auto& o) { o.augment = "rcc(32)"; }), "did you mean 'rrc'");
  expect(with([](auto& o) { o.augment = "hflip"; }), "different sizes");
}

TEST_F(LoaderTest, ADatasetThatIsNotThereIsNotFound) {
  LoaderOptions o = options();
  o.data = *dir_ / "nothing";
  const auto loader = Loader::open(o);
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.status().code(), ErrorCode::kNotFound);
}

// An op that can't take narrow images, as a program might bring.
class PickyOp final : public augment::Op {
 public:
  augment::ImageSize output(const augment::ImageSize& in) const override { return {16, 16, in.channels}; }
  Status plan(const augment::ImageSize& in, RandomStream&, augment::OpDraw& draw) const override {
    if (in.width < 100) return Status(ErrorCode::kMisuse, "an image is too narrow");
    draw.region = {0, 0, 16, 16};
    draw.out = {16, 16, in.channels};
    draw.crop_only = true;
    return {};
  }
  Status apply(const augment::OpDraw&, const ConstImageView&, const ImageView&,
               augment::ChainScratch&) const override {
    return Status(ErrorCode::kInternal, "not called: the crop is folded into the decoding");
  }
};

TEST_F(LoaderTest, AnOpThatRefusesAnImageEndsTheStreamAndNamesTheSample) {
  const augment::OpRecord picky{
      .name = "picky",
      .help = "",
      .version = 1,
      .params = {},
      .build = [](augment::OpArguments&) -> Result<std::shared_ptr<const augment::Op>> {
        return std::shared_ptr<const augment::Op>(std::make_shared<PickyOp>());
      }};
  augment::OpRegistry registry = augment::OpRegistry::builtin();
  registry.add(picky);
  LoaderOptions o = options();
  o.ops = &registry;
  o.augment = "picky";
  std::string message;
  for (const int threads : {1, 2}) {
    o.threads = threads;
    const auto loader = open_loader(o);
    const Status status = read_to_error(*loader);
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.message().find("sample "), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("too narrow"), std::string::npos) << status.message();
    EXPECT_EQ(loader->next().status().message(), status.message());  // and stays ended
    if (message.empty()) message = status.message();
    EXPECT_EQ(status.message(), message);  // the same image whatever the threads
  }
}

TEST_F(LoaderTest, SeekRefusesAnotherStreamsState) {
  const auto loader = open_loader(options());
  const SourceState good = loader->state();
  const auto refused = [&](auto change) {
    SourceState state = good;
    change(state);
    const Status status = loader->seek(state);
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    return status.message();
  };
  EXPECT_NE(refused([](auto& s) { s.dataset_id = "x"; }).find("dataset"), std::string::npos);
  EXPECT_NE(refused([](auto& s) { s.pipeline_id = "x"; }).find("pipeline"), std::string::npos);
  EXPECT_NE(refused([](auto& s) { s.seed = 77; }).find("seed"), std::string::npos);
  EXPECT_NE(refused([](auto& s) { s.batch_index = 1000; }).find("batch 1000"), std::string::npos);
  EXPECT_NE(refused([](auto& s) { s.samples_consumed = 3; }).find("samples"), std::string::npos);
  EXPECT_TRUE(loader->seek(good).ok());
}

TEST_F(LoaderTest, PipelineIdFollowsWhatDecidesTheBatchesAndNothingElse) {
  const auto id = [](auto change) {
    LoaderOptions o = options();
    change(o);
    return open_loader(o)->pipeline_id();
  };
  const std::string base = id([](auto&) {});
  EXPECT_EQ(id([](auto& o) { o.threads = 1; }), base);
  EXPECT_EQ(id([](auto& o) { o.slots = 7; }), base);
  EXPECT_EQ(id([](auto& o) { o.augment = " rrc( 32 ) "; }), base);
  EXPECT_NE(id([](auto& o) { o.augment = "rrc(33)"; }), base);
  EXPECT_NE(id([](auto& o) { o.batch = 5; }), base);
  EXPECT_NE(id([](auto& o) { o.shuffle = false; }), base);
  EXPECT_NE(id([](auto& o) { o.limit = 20; }), base);
}

TEST_F(LoaderTest, ThreadsDefaultToWhatTheProcessMayUse) {
  LoaderOptions o = options();
  o.threads = 0;
  EXPECT_EQ(open_loader(o)->threads(), available_threads());
}

}  // namespace
}  // namespace dlpipe::pipeline

// Corrupt records, unreadable disks: what is replaced, what is dropped, what ends the run, and the account of
// it.
#include "pipeline/pipeline.h"

#include <gtest/gtest.h>
#include <sys/stat.h>  // mkfifo

#include <atomic>
#include <cstring>
#include <map>
#include <set>

#include "tests/pipeline/dataset_test.h"
#include "tests/pipeline/drawn_dataset.h"
#include "tests/pipeline/loader_testing.h"

namespace dlpipe::pipeline {
namespace {

const std::set<int64_t> kTruncated = {3, 17};
const std::set<int64_t> kFlipped = {5, 22, 30};
const std::set<int64_t> kBad = {3, 5, 17, 22, 30};

class BadRecordsTest : public DatasetTest<BadRecordsTest> {
 public:
  static void write_datasets() {
    write_drawn_dataset(*dir_ / "bad", {.count = 40, .truncated = kTruncated});
    for (const int64_t sample : kFlipped) flip_bit(*dir_ / "bad", sample);
    write_drawn_dataset(*dir_ / "good", {.count = 40});
    write_drawn_dataset(*dir_ / "hopeless", {.count = 1, .truncated = {0}});
  }

 protected:
  static LoaderOptions options(const std::string& name = "bad") {
    LoaderOptions options;
    options.data = *dir_ / name;
    options.augment = "resize(32x32)";  // needs the whole image, so that damage anywhere is met
    options.batch = 8;
    options.threads = 2;
    options.epochs = 3;
    options.hash_pixels = true;
    return options;
  }
  static std::vector<std::string> lines_of(const std::string& path) {
    std::vector<std::string> lines;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
};

TEST_F(BadRecordsTest, SubstitutesAreTheSameForAnyThreadCount) {
  LoaderOptions o = options();
  o.threads = 1;
  const auto expected = read_hashes(*open_loader(o));
  ASSERT_EQ(expected.size(), 15u);
  for (const int threads : {2, 3, 8}) {
    for (const int slots : {1, 4}) {
      LoaderOptions other = options();
      other.threads = threads;
      other.slots = slots;
      EXPECT_EQ(read_hashes(*open_loader(other)), expected);
    }
  }
}

// A dataset whose id was made of wrong rows: each such sample is bad, is named, and nothing is allocated for it.
TEST_F(BadRecordsTest, HeaderRowsThatTheirImagesContradictAreBadSamples) {
  data::TempDir dir;
  const std::map<int64_t, std::string> wrong = {{4, "pixels, which its image does not have"},
                                                {9, "sample 9 as 0x"},
                                                {21, "65535x65535 pixels are more than"}};
  for (const data::ImageLayout layout : {data::ImageLayout::kJpeg, data::ImageLayout::kCoefficients}) {
    const std::string data = dir / std::string(data::image_layout_name(layout));
    write_drawn_dataset(data,
                        {.count = 40, .layout = layout, .too_wide = {4}, .no_width = {9}, .huge = {21}});
    LoaderOptions o = options();
    o.data = data;
    o.quarantine_file = data + ".quarantine";
    const auto loader = open_loader(o);
    const auto expected = read_hashes(*loader);
    EXPECT_EQ(loader->state().bad_samples, (std::vector<int64_t>{4, 9, 21}));
    const std::string text = data::file_text(o.quarantine_file);
    for (const auto& [sample, reason] : wrong)
      EXPECT_NE(text.find(reason), std::string::npos) << reason << text;
    o.quarantine_file.clear();
    o.threads = 3;
    EXPECT_EQ(read_hashes(*open_loader(o)), expected);
  }
}

TEST_F(BadRecordsTest, BadSamplesAreReplacedByGoodOnesAndReported) {
  const auto loader = open_loader(options());
  std::map<int64_t, std::set<int64_t>> bad_of_epoch;
  while (const auto batch = value_or_throw(loader->next())) {
    for (const int64_t sample : batch->sample_ids) EXPECT_FALSE(kBad.contains(sample));
    for (const float weight : batch->weight) EXPECT_EQ(weight, 1.0f);
    for (const Substitution& s : batch->substitutions) {
      EXPECT_TRUE(kBad.contains(s.bad_sample));
      EXPECT_FALSE(kBad.contains(s.used_sample));
      EXPECT_GE(s.attempt, 1);
      EXPECT_FALSE(s.reason.empty());
      EXPECT_EQ(kFlipped.contains(s.bad_sample), s.reason.find("checksum") != std::string::npos) << s.reason;
      EXPECT_EQ(batch->sample_ids[static_cast<size_t>(s.position - batch->index * 8)], s.used_sample);
      bad_of_epoch[batch->epoch].insert(s.bad_sample);
    }
    throw_if_error(loader->release(*batch));
  }
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    for (const int64_t bad : kBad) EXPECT_TRUE(bad_of_epoch[epoch].contains(bad)) << epoch << " " << bad;
  }
  EXPECT_EQ(loader->stats().substituted, static_cast<int64_t>(kBad.size()));
  EXPECT_EQ(loader->state().bad_samples, std::vector<int64_t>(kBad.begin(), kBad.end()));
}

TEST_F(BadRecordsTest, AResumedStreamGoesOnWithTheSameSubstitutesAndSet) {
  LoaderOptions o = options();
  const auto whole = open_loader(o);
  const auto expected = read_hashes(*whole);
  for (const int64_t position : {1, 4, 7, 12}) {
    const auto first = open_loader(o);
    read_hashes(*first, position);
    LoaderOptions other = o;
    other.threads = 3;
    const auto second = open_loader(other);
    throw_if_error(second->seek(first->state()));
    EXPECT_EQ(read_hashes(*second), std::vector<uint64_t>(expected.begin() + position, expected.end()));
    EXPECT_EQ(second->state(), whole->state());
  }
}

TEST_F(BadRecordsTest, QuarantineFileListsEachBadSampleOnce) {
  LoaderOptions o = options();
  o.quarantine_file = *dir_ / "quarantine.txt";
  const auto check = [&] {
    const auto lines = lines_of(o.quarantine_file);
    ASSERT_EQ(lines.size(), kBad.size() + 1);
    EXPECT_EQ(lines[0][0], '#');
    std::set<int64_t> listed;
    for (size_t i = 1; i < lines.size(); ++i) listed.insert(std::stoll(lines[i]));
    EXPECT_EQ(listed, kBad);
  };
  const auto loader = open_loader(o);
  const SourceState start = loader->state();
  read_hashes(*loader);
  check();
  const auto again = open_loader(o);  // a run that resumes adds no line twice
  throw_if_error(again->seek(start));
  read_hashes(*again);
  check();
}

TEST_F(BadRecordsTest, NothingIsWrittenBeforeItsBatchIsLent) {
  LoaderOptions o = options();
  o.shuffle = false;
  o.slots = 5;
  o.quarantine_file = *dir_ / "lent.txt";
  const auto loader = open_loader(o);
  EXPECT_TRUE(lines_of(o.quarantine_file).empty());
  std::set<int64_t> lent;
  for (int i = 0; i < 5; ++i) {
    const auto batch = value_or_throw(loader->next());
    for (const Substitution& s : batch->substitutions) lent.insert(s.bad_sample);
    throw_if_error(loader->release(*batch));
    EXPECT_EQ(lines_of(o.quarantine_file).size(), lent.size() + 1);
    if (i == 0) {
      EXPECT_TRUE(lent.contains(3));
      EXPECT_FALSE(lent.contains(30) && lent.contains(17) && lent.contains(22));
    }
  }
}

TEST_F(BadRecordsTest, AQuarantineFileThatCantBeWrittenEndsTheRun) {
  LoaderOptions o = options();
  o.quarantine_file = *dir_ / "no/such/directory/q.txt";
  const Status status = read_to_error(*open_loader(o));
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_NE(status.message().find("quarantine"), std::string::npos);
}

TEST_F(BadRecordsTest, AQuarantineFileThatIsAPipeIsRefusedBeforeAnythingIsRead) {
  LoaderOptions o = options();
  o.quarantine_file = *dir_ / "pipe.txt";
  ASSERT_EQ(::mkfifo(o.quarantine_file.c_str(), 0600), 0);
  const Status status = Loader::open(o).status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.message().find("quarantine file"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("is a pipe"), std::string::npos) << status.message();
}

TEST_F(BadRecordsTest, MaxBadCountsDistinctSamples) {
  LoaderOptions o = options();
  o.max_bad = 5;  // every epoch meets the same five
  EXPECT_TRUE(read_to_error(*open_loader(o)).ok());
  o.max_bad = 4;
  std::string message;
  for (const int threads : {1, 2, 8}) {
    o.threads = threads;
    const Status status = read_to_error(*open_loader(o));
    ASSERT_EQ(status.code(), ErrorCode::kCorrupt);
    EXPECT_NE(status.message().find("--max-bad 4"), std::string::npos);
    if (message.empty()) message = status.message();
    EXPECT_EQ(status.message(), message);  // the same sample is named whatever the threads
  }
}

TEST_F(BadRecordsTest, ValidationKeepsThePlaceWithWeightZero) {
  LoaderOptions o = validation_options(options());
  o.epochs = 2;
  const auto loader = open_loader(o);
  int64_t next = 0;
  std::set<int64_t> dropped;
  while (const auto batch = value_or_throw(loader->next())) {
    EXPECT_EQ(batch->count, 8);
    for (size_t i = 0; i < 8; ++i) {
      const int64_t sample = next++ % 40;
      EXPECT_EQ(batch->sample_ids[i], sample);
      EXPECT_EQ(batch->weight[i], kBad.contains(sample) ? 0.0f : 1.0f);
    }
    for (const Substitution& s : batch->substitutions) {
      EXPECT_EQ(s.used_sample, -1);
      dropped.insert(s.bad_sample);
    }
    throw_if_error(loader->release(*batch));
  }
  EXPECT_EQ(next, 80);
  EXPECT_EQ(dropped, kBad);
}

TEST_F(BadRecordsTest, DroppedSamplesLeaveTheSamePixelsForAnyThreadCount) {
  LoaderOptions o = validation_options(options());
  o.threads = 1;
  const auto expected = read_hashes(*open_loader(o));
  o.threads = 8;
  EXPECT_EQ(read_hashes(*open_loader(o)), expected);
}

TEST_F(BadRecordsTest, StopEndsAtTheFirstBadSampleInOrder) {
  LoaderOptions o = options();
  o.on_bad = OnBadRecord::kStop;
  o.shuffle = false;
  for (const int threads : {1, 3}) {
    o.threads = threads;
    const Status status = read_to_error(*open_loader(o));
    EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
    EXPECT_NE(status.message().find("bad sample 3 "), std::string::npos) << status.message();
  }
}

TEST_F(BadRecordsTest, ABatchThatEndsTheStreamIsNotHeldByAnyone) {
  LoaderOptions o = options();
  o.on_bad = OnBadRecord::kStop;
  o.shuffle = false;
  o.slots = 2;
  const auto loader = open_loader(o);
  for (int pass = 0; pass < 5; ++pass) {
    throw_if_error(loader->seek_epoch(pass % 2));
    const Status status = read_to_error(*loader);
    EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
    EXPECT_NE(status.message().find("bad sample 3 "), std::string::npos) << status.message();
  }
}

TEST_F(BadRecordsTest, WhenEverySubstituteIsBadTheRunEnds) {
  LoaderOptions o = options("hopeless");
  o.batch = 1;
  const Status status = read_to_error(*open_loader(o));
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("substitutes"), std::string::npos) << status.message();
}

TEST_F(BadRecordsTest, TooManyPixelsAreABadRecord) {
  LoaderOptions o = options("good");
  o.max_pixels = 100 * 100;  // some of the images are larger
  o.max_bad = 40;
  const auto loader = open_loader(o);
  read_hashes(*loader, 5);
  EXPECT_GT(loader->stats().substituted, 0);
  EXPECT_LT(loader->stats().substituted, 40);
}

// --- storage -----------------------------------------------------------------------------------------------

TEST_F(BadRecordsTest, AReadErrorThatGoesAwayIsNotNoticed) {
  LoaderOptions o = options("good");
  const auto expected = read_hashes(*open_loader(o));
  auto failures = std::make_shared<std::map<int64_t, int>>();
  o.inject_read_error = [failures](int64_t sample) -> Status {  // the prefault thread's alone
    if (sample % 20 == 7 && (*failures)[sample]++ % 3 != 2) return Status(ErrorCode::kIo, "injected");
    return {};
  };
  EXPECT_EQ(read_hashes(*open_loader(o)), expected);
}

TEST_F(BadRecordsTest, AReadErrorThatStaysEndsTheRunAndSubstitutesNothing) {
  LoaderOptions o = options("good");
  o.shuffle = false;
  o.inject_read_error = [](int64_t sample) -> Status {
    return sample == 13 ? Status(ErrorCode::kIo, "injected: the disk is gone") : Status();
  };
  for (const int threads : {1, 2}) {
    o.threads = threads;
    const auto loader = open_loader(o);
    read_hashes(*loader, 1);  // samples 0..7 come through
    const Status status = read_to_error(*loader);
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    EXPECT_NE(status.message().find("sample 13"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("the disk is gone"), std::string::npos);
    EXPECT_EQ(loader->stats().substituted, 0);
  }
}

TEST_F(BadRecordsTest, AStreamThatEndedInAnErrorCanBeSoughtAndGoesOn) {
  LoaderOptions o = options("good");
  o.shuffle = false;
  auto broken = std::make_shared<std::atomic<bool>>(true);
  o.inject_read_error = [broken](int64_t sample) -> Status {
    return sample == 13 && *broken ? Status(ErrorCode::kIo, "injected") : Status();
  };
  const auto loader = open_loader(o);
  read_hashes(*loader, 1);
  const SourceState state = loader->state();
  EXPECT_FALSE(read_to_error(*loader).ok());
  *broken = false;
  throw_if_error(loader->seek(state));
  EXPECT_EQ(read_hashes(*loader).size(), 14u);
}

}  // namespace
}  // namespace dlpipe::pipeline

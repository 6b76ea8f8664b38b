// A dataset must come out byte for byte the same, whatever happens on the way.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "io/data/partial_directory.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

// Runs the ingest in a process of its own and kills it with SIGKILL after `wait`; true when it had ended.
bool run_and_kill(const IngestOptions& options, std::chrono::microseconds wait) {
  const pid_t child = fork();
  if (child == 0) _exit(ingest(options).ok() ? 0 : 1);
  const auto end = std::chrono::steady_clock::now() + wait;
  int status = 0;
  while (std::chrono::steady_clock::now() < end) {
    if (waitpid(child, &status, WNOHANG) == child) {
      EXPECT_TRUE(WIFEXITED(status));
      EXPECT_EQ(WEXITSTATUS(status), 0) << "the ingest failed";
      return true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

struct Form {
  const char* name;
  int files;
  int side;
  std::vector<double> split;
  Store store;
  int64_t commit_entries;
  bool published = false;  // SRC is train and val folders
  int folds = 0;
};

class KilledIngest : public testing::TestWithParam<Form> {};

TEST_P(KilledIngest, GoesOnAndGivesTheSameBytes) {
  const Form& form = GetParam();
  TempDir dir;
  write_images(dir / (form.published ? "src/train" : "src"), form.files, 3, form.side);
  if (form.published) write_images(dir / "src/val", form.files / 3, 3, form.side);
  IngestOptions options = options_for(dir / "src", dir / "whole");
  options.split = form.split;
  options.folds = form.folds;
  options.store = form.store;
  options.commit_entries = form.commit_entries;
  const auto begin = std::chrono::steady_clock::now();
  value_or_throw(ingest(options));
  double whole_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  const auto expected = dataset_files(dir / "whole");

  RandomStream random(2024, static_cast<uint64_t>(form.files));
  int kills = 0;
  const char* const more = std::getenv("DLPIPE_KILL_ROUNDS");  // to look for rare moments by hand
  const int rounds = more != nullptr ? std::atoi(more) : 5;
  for (int round = 0; round < rounds || (kills <= rounds && round < rounds + 20); ++round) {
    SCOPED_TRACE(round);
    const int before = kills;
    options.destination = dir / ("killed" + std::to_string(round));
    // Moments are drawn within a sixth of a whole run, so that a run takes several attempts. A run that makes
    // no headway (a loaded machine) is given longer and longer.
    double longest = 0.16 * whole_us;
    while (!run_and_kill(options,
                         std::chrono::microseconds(1 + static_cast<int64_t>(longest * random.uniform())))) {
      // Killed between the last rename and its exit, it is whole.
      if (std::filesystem::exists(options.destination)) {
        ASSERT_TRUE(dataset_files(options.destination) == expected) << "looks whole before it is";
      }
      ++kills;
      longest *= 1.03;
      ASSERT_LT(kills, 1000 * rounds);
    }
    ASSERT_TRUE(dataset_files(options.destination) == expected) << "after " << kills << " kills";
    EXPECT_FALSE(std::filesystem::exists(options.destination + ".partial"));
    std::filesystem::remove_all(options.destination);
    if (kills == before) whole_us /= 2;  // it was timed while the machine had other work
  }
  EXPECT_GT(kills, rounds);
  RecordProperty("kills", kills);
}

INSTANTIATE_TEST_SUITE_P(Forms, KilledIngest,
                         testing::Values(Form{"alone", 240, 120, {}, Store::kRaw, 9},
                                         Form{"packed", 700, 16, {}, Store::kAuto, 23},
                                         Form{"split", 400, 24, {0.7, 0.3}, Store::kAuto, 31},
                                         Form{"published", 300, 24, {}, Store::kAuto, 31, true},
                                         Form{"folds", 300, 24, {}, Store::kAuto, 31, false, 3}),
                         [](const auto& info) { return info.param.name; });

TEST(ResumedIngest, AfterAStopGoesOnWhereItWas) {
  TempDir dir;
  write_images(dir / "src", 300, 3, 20);
  IngestOptions options = options_for(dir / "src", dir / "whole");
  options.commit_entries = 20;
  value_or_throw(ingest(options));
  options.destination = dir / "stopped";
  options.window_bytes = 1;
  int asked = 0;
  options.stop_requested = [&] { return ++asked > 150; };
  const Status status = ingest(options).status();
  EXPECT_EQ(status.code(), ErrorCode::kCancelled);
  EXPECT_NE(status.message().find("stopped after 151 of 300 files"), std::string::npos) << status.message();
  EXPECT_FALSE(std::filesystem::exists(dir / "stopped"));
  EXPECT_NE(data::Dataset::open(dir / "stopped.partial").status().message().find("incomplete"),
            std::string::npos);
  options.stop_requested = {};
  IngestProgress first;
  const IngestReport report = value_or_throw(ingest(options, [&](const IngestProgress& progress) {
    if (first.total == 0) first = progress;
  }));
  EXPECT_TRUE(report.resumed);
  EXPECT_GE(first.done, 140) << "committed files are not done again";
  EXPECT_TRUE(dataset_files(dir / "stopped") == dataset_files(dir / "whole"));
}

// What a run that was killed at a commit leaves behind.
void begin_ingest(IngestOptions options) {
  int asked = 0;
  options.commit_entries = 10;
  options.stop_requested = [&] { return ++asked > 30; };
  ASSERT_EQ(ingest(options).status().code(), ErrorCode::kCancelled);
}

TEST(ResumedIngest, RefusesOtherOptionsAndNamesThem) {
  TempDir dir;
  write_images(dir / "src", 60, 3, 20);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  begin_ingest(options);
  options.commit_entries = 10;
  IngestOptions other = options;
  other.quality = 70;
  Status status = ingest(other).status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_NE(status.message().find("--quality 90, now 70"), std::string::npos) << status.message();
  other = options;
  other.split = {0.5, 0.5};
  EXPECT_NE(ingest(other).status().message().find("--split"), std::string::npos);
  other = options;
  other.jobs = 1;
  other.window_bytes = 5000;
  other.on_error = OnError::kStop;
  EXPECT_NE(ingest(other).status().code(), ErrorCode::kMisuse) << "these may differ";
  EXPECT_TRUE(ingest(options).ok());
}

TEST(ResumedIngest, RefusesChangedFilesAndNamesThem) {
  TempDir dir;
  write_images(dir / "src", 60, 3, 20);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  begin_ingest(options);
  options.commit_entries = 10;
  const std::string victim = dir / "src/c0/1000.jpg";  // committed long ago
  const std::string was = file_text(victim);
  const auto time = std::filesystem::last_write_time(victim);
  write_text(victim, was + "x");
  Status status = ingest(options).status();
  EXPECT_EQ(status.code(), ErrorCode::kChanged);
  EXPECT_NE(status.message().find("c0/1000.jpg changed"), std::string::npos) << status.message();
  std::filesystem::remove(victim);
  EXPECT_NE(ingest(options).status().message().find("c0/1000.jpg was removed"), std::string::npos);
  write_text(victim, was);
  std::filesystem::last_write_time(victim, time);
  write_text(dir / "src/c0/new.jpg", was);  // not in the frozen list: left out
  EXPECT_EQ(value_or_throw(ingest(options)).splits[0].samples, 58);
}

// The images stay as they are; what a list says of them becomes another.
TEST(ResumedIngest, RefusesOtherLabelsBoxesAndSplitsAndNamesThem) {
  TempDir dir;
  write_images(dir / "src", 60, 3, 20);
  const auto write_list = [&](int odd, const std::string& values) {
    std::string text = "path,label,split,box,tags\n";
    for (int i = 0; i < 60; ++i) {
      text += "c" + std::to_string(i % 3) + "/" + std::to_string(1000 + i) + ".jpg,";
      text += i == odd ? values + "\n" : i % 2 == 0 ? "cat,train,1 2 3 4,a|b\n" : "dog,val,1 2 3 4,b\n";
    }
    write_text(dir / "src/list.csv", text);
  };
  IngestOptions options = options_for(dir / "src/list.csv", dir / "dst");
  options.fields = {"box:boxes", "tags:labels"};
  write_list(-1, "");
  begin_ingest(options);
  options.commit_entries = 10;
  const auto refusal = [&](const std::string& values) {
    write_list(2, values);
    const Status status = ingest(options).status();
    EXPECT_EQ(status.code(), ErrorCode::kChanged) << values;
    EXPECT_NE(status.message().find("remove " + dir / "dst.partial"), std::string::npos) << status.message();
    return status.message();
  };
  const std::string file = "c2/1002.jpg ";
  expect_part(refusal("dog,train,1 2 3 4,a|b"), file + "changed its class: it is now 'dog' instead of 'cat'");
  expect_part(refusal("ant,train,1 2 3 4,a|b"), file + "changed its class: it is now 'ant' instead of 'cat'");
  expect_part(refusal("cat,val,1 2 3 4,a|b"), file + "moved from split 'train' to 'val'");
  expect_part(refusal("cat,train,1 2 3 5,a|b"), file + "has another value of 'box'");
  expect_part(refusal("cat,train,1 2 3 4,b"), file + "has another value of 'tags'");
  write_list(-1, "");
  const std::string list = file_text(dir / "src/list.csv");
  write_text(dir / "src/list.csv", list + "c0/1000.jpg,ant,train,1 2 3 4,a\n");
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kCorrupt) << "listed twice";
  // A class more, in front of the others, for a file that isn't in the frozen list: the same labels.
  write_text(dir / "src/c0/new.jpg", jpeg_text(1, 9, 9));
  write_text(dir / "src/list.csv", list + "c0/new.jpg,ant,train,1 2 3 4,Z\n");
  const IngestReport report = value_or_throw(ingest(options));
  EXPECT_EQ(report.splits[0].samples + report.splits[1].samples, 58);
}

TEST(ResumedIngest, ADamagedListIsNotFollowed) {
  TempDir dir;
  write_images(dir / "src", 60, 3, 20);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  begin_ingest(options);
  options.commit_entries = 10;
  std::string text = file_text(dir / "dst.partial/ingest.list");
  text[text.size() / 2] ^= 1;
  write_text(dir / "dst.partial/ingest.list", text);
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kCorrupt);
  write_text(dir / "dst.partial/ingest.list", "");
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kCorrupt);
}

// LMDB makes a new file with one write; a kill can come in the middle of it.
TEST(ResumedIngest, AnEnvironmentThatWasNeverMadeWholeIsMadeAgain) {
  TempDir dir;
  write_images(dir / "src", 60, 2, 20);
  IngestOptions options = options_for(dir / "src", dir / "expected");
  options.commit_entries = 10;
  value_or_throw(ingest(options));
  options.destination = dir / "dst";
  begin_ingest(options);
  write_text(dir / "dst.partial/data.mdb", file_text(dir / "expected/data.mdb").substr(0, 4096));
  value_or_throw(ingest(options));
  EXPECT_TRUE(dataset_files(dir / "dst") == dataset_files(dir / "expected"));
}

TEST(ResumedIngest, ADamagedPartSaysWhatToRemove) {
  TempDir dir;
  write_images(dir / "src", 60, 3, 20);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  begin_ingest(options);
  options.commit_entries = 10;
  write_text(dir / "dst.partial/data.mdb", std::string(10'000, 'x'));
  const Status status = ingest(options).status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("dst.partial can't be continued; remove it"), std::string::npos)
      << status.message();
}

TEST(ResumedIngest, AFinishedDatasetIsRecognized) {
  TempDir dir;
  write_images(dir / "src", 40, 2, 20);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  const IngestReport first = value_or_throw(ingest(options));
  const IngestReport again = value_or_throw(ingest(options));
  EXPECT_TRUE(again.already_complete);
  EXPECT_EQ(again.splits[0].id, first.splits[0].id);
  EXPECT_EQ(again.skipped.size(), first.skipped.size());
  options.zstd = true;
  const Status status = ingest(options).status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_NE(status.message().find("already exists (--zstd false, now true)"), std::string::npos)
      << status.message();
  options.zstd = false;
  options.split = {0.5, 0.5};
  EXPECT_NE(ingest(options).status().message().find("(--split not set, now 0.5,0.5)"), std::string::npos);
  options.limit = 3;
  options.split.clear();
  options.destination = dir / "few";
  ASSERT_TRUE(ingest(options).ok());
  options.limit = -1;
  EXPECT_NE(ingest(options).status().message().find("(--limit 3, now not set)"), std::string::npos)
      << ingest(options).status().message();
}

TEST(ResumedIngest, AFinishedDatasetOfOtherFilesIsRefused) {
  TempDir dir;
  write_images(dir / "src", 40, 2, 20);
  const IngestOptions options = options_for(dir / "src", dir / "dst");
  ASSERT_TRUE(ingest(options).ok());
  const std::string image = dir / "src/c0/new.jpg";
  const auto refusal = [&] { return ingest(options).status().message(); };
  write_text(image, file_text(dir / "src/c0/1000.jpg"));
  EXPECT_NE(refusal().find("made from 40 files; " + dir / "src holds 41 now"), std::string::npos)
      << refusal();
  std::filesystem::rename(dir / "src/c0/1000.jpg", dir / "aside.jpg");
  EXPECT_NE(refusal().find("made from other files than"), std::string::npos) << refusal();
  std::filesystem::remove(image);
  // The same file copied back, with another time, is the same.
  std::filesystem::copy_file(dir / "aside.jpg", dir / "src/c0/1000.jpg");
  EXPECT_TRUE(value_or_throw(ingest(options)).already_complete);
  std::filesystem::create_directories(dir / "src/c9");
  EXPECT_TRUE(value_or_throw(ingest(options)).already_complete) << "an empty folder is no class";
  write_text(dir / "src/c9/1.jpg", file_text(dir / "src/c0/1000.jpg"));
  EXPECT_NE(refusal(), "") << "a class more";
  std::filesystem::remove_all(dir / "src/c9");
  std::string provenance = file_text(dir / "dst/provenance.json");  // as datasets were before
  provenance.replace(provenance.find("\"source\""), 8, "\"former\"");
  write_text(dir / "dst/provenance.json", provenance);
  const IngestReport older = value_or_throw(ingest(options));
  EXPECT_TRUE(older.already_complete);
  EXPECT_FALSE(older.files_compared);
}

TEST(ResumedIngest, ASecondIngestIntoTheSamePlaceIsRefused) {
  TempDir dir;
  write_images(dir / "src", 10, 2, 20);
  const auto first = data::PartialDirectory::claim("ingest", dir / "dst");
  ASSERT_TRUE(first.ok());
  const Status status = ingest(options_for(dir / "src", dir / "dst")).status();
  EXPECT_NE(status.message().find(" is writing " + (dir / "dst")), std::string::npos) << status.message();
}

}  // namespace
}  // namespace dlpipe::ingest

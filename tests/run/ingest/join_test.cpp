// Parts of an ingest, made apart, must come together to the bytes of one ingest, whatever happens on the way.
#include "run/ingest/join.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "io/data/partial_directory.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

struct PartForm {
  const char* name;
  int files;
  int side;
  int64_t parts;
  std::vector<double> split = {};
  Store store = Store::kAuto;
  bool zstd = false;
  int64_t commit_entries = 23;
};

IngestOptions form_options(const PartForm& form, const TempDir& dir) {
  IngestOptions options = options_for(dir / "src", dir / "whole");
  options.split = form.split;
  options.store = form.store;
  options.zstd = form.zstd;
  options.commit_entries = form.commit_entries;
  return options;
}

/// Makes all parts, as DIR/part1 and so on.
JoinOptions make_parts(IngestOptions options, const TempDir& dir, int64_t count) {
  JoinOptions join;
  join.destination = dir / "joined";
  for (int64_t number = 1; number <= count; ++number) {
    options.part = Part{number, count};
    options.destination = dir / ("part" + std::to_string(number));
    value_or_throw(ingest(options));
    join.parts.push_back(options.destination);
  }
  return join;
}

void expect_refused(const JoinOptions& options, const std::string& message) {
  const Status status = join(options).status();
  EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  EXPECT_FALSE(std::filesystem::exists(options.destination));
  EXPECT_FALSE(std::filesystem::exists(options.destination + ".partial"));
}

class JoinedParts : public testing::TestWithParam<PartForm> {};

TEST_P(JoinedParts, HaveTheBytesOfOneIngest) {
  const PartForm& form = GetParam();
  TempDir dir;
  write_images(dir / "src", form.files, 3, form.side);
  IngestOptions options = form_options(form, dir);
  const IngestReport whole = value_or_throw(ingest(options));
  JoinOptions parts = make_parts(options, dir, form.parts);
  std::reverse(parts.parts.begin(), parts.parts.end());  // any order
  const IngestReport joined = value_or_throw(join(parts));
  EXPECT_TRUE(dataset_files(dir / "joined") == dataset_files(dir / "whole"));
  ASSERT_EQ(joined.splits.size(), whole.splits.size());
  for (size_t i = 0; i < whole.splits.size(); ++i) EXPECT_EQ(joined.splits[i].id, whole.splits[i].id);
  EXPECT_EQ(joined.skipped.size(), whole.skipped.size());
  EXPECT_FALSE(std::filesystem::exists(dir / "joined.partial"));
  EXPECT_TRUE(value_or_throw(join(parts)).already_complete);
  options.destination = dir / "joined";
  EXPECT_TRUE(value_or_throw(ingest(options)).already_complete) << "it is what one ingest would make";
}

INSTANTIATE_TEST_SUITE_P(Forms, JoinedParts,
                         testing::Values(PartForm{"alone", 120, 120, 4, {}, Store::kRaw, false, 9},
                                         PartForm{"packed", 700, 16, 16},
                                         PartForm{"compressed", 300, 16, 3, {}, Store::kRaw, true},
                                         PartForm{"split", 400, 24, 5, {0.99, 0.01}},
                                         PartForm{"single", 60, 24, 1}, PartForm{"small", 60, 24, 60},
                                         PartForm{"links", 300, 24, 3, {0.8, 0.2}, Store::kLink}),
                         [](const auto& info) { return info.param.name; });

TEST(Join, NamesWhatIsMissingForeignDoubleOrNoPart) {
  TempDir dir;
  write_images(dir / "src", 100, 3, 24);
  const IngestOptions options = options_for(dir / "src", dir / "whole");
  const JoinOptions good = make_parts(options, dir, 4);
  JoinOptions bad = good;
  bad.parts = {good.parts[0], good.parts[3]};
  expect_refused(bad, "2 parts are missing: '2/4', '3/4'");
  bad.parts = good.parts;
  bad.parts.push_back(good.parts[1]);
  expect_refused(bad, "are both part 2/4");
  bad.parts = good.parts;
  bad.parts[2] = dir / "src";
  expect_refused(bad, "is not a part of an ingest");
  bad.parts[2] = dir / "nowhere";
  expect_refused(bad, "there is no");

  IngestOptions other = options;
  other.part = Part{3, 4};
  other.zstd = true;
  other.destination = dir / "other_options";
  value_or_throw(ingest(other));
  bad.parts[2] = other.destination;
  expect_refused(bad, "do not belong to the same ingest: --zstd false, now true");
  other.zstd = false;
  other.part = Part{3, 5};
  other.destination = dir / "other_count";
  value_or_throw(ingest(other));
  bad.parts[2] = other.destination;
  expect_refused(bad, "do not belong to the same ingest: the number of parts differs");
  write_text(dir / "src/c0/one_more.jpg", jpeg_text(1, 20, 20));
  other.part = Part{3, 4};
  other.destination = dir / "other_files";
  value_or_throw(ingest(other));
  bad.parts[2] = other.destination;
  expect_refused(bad, "their source files");
}

TEST(Join, TakesPartsOfTheSameFilesInAnotherPlace) {
  TempDir dir;
  write_images(dir / "src", 100, 3, 24);
  IngestOptions options = options_for(dir / "src", dir / "whole");
  options.commit_entries = 23;
  value_or_throw(ingest(options));
  JoinOptions parts = make_parts(options, dir, 2);
  std::filesystem::copy(dir / "src", dir / "copy", std::filesystem::copy_options::recursive);
  options.sources = {dir / "copy"};
  options.part = Part{2, 2};
  options.destination = parts.parts[1] = dir / "made_elsewhere";
  value_or_throw(ingest(options));
  value_or_throw(join(parts));
  EXPECT_TRUE(dataset_files(dir / "joined") == dataset_files(dir / "whole"));
}

TEST(Join, LinksMustLeadToOnePlace) {
  TempDir dir;
  write_images(dir / "src", 100, 3, 24);
  IngestOptions options = options_for(dir / "src", dir / "whole");
  options.store = Store::kLink;
  options.trust = true;  // most images have no sums
  value_or_throw(ingest(options));
  const JoinOptions good = make_parts(options, dir, 2);
  std::filesystem::copy(dir / "src", dir / "copy", std::filesystem::copy_options::recursive);
  options.sources = {dir / "copy"};
  options.part = Part{2, 2};
  options.destination = dir / "made_elsewhere";
  value_or_throw(ingest(options));
  JoinOptions bad = good;
  bad.parts[1] = options.destination;
  expect_refused(bad, "links of all parts must lead to the same place");

  std::filesystem::create_directory_symlink(dir / "src", dir / "other_name");
  options.sources = {dir / "other_name"};
  options.destination = bad.parts[1] = dir / "made_by_other_name";
  value_or_throw(ingest(options));
  std::filesystem::rename(dir / "src/c0", dir / "c0");  // images needn't be there
  value_or_throw(join(bad));
  std::filesystem::rename(dir / "c0", dir / "src/c0");
  EXPECT_TRUE(dataset_files(dir / "joined") == dataset_files(dir / "whole"));
}

TEST(Join, TakesMasksAsTheyAre) {
  TempDir dir;
  std::string list = "path,label,mask\n";
  for (int i = 0; i < 60; ++i) {
    const std::string number = std::to_string(100 + i);
    write_text(dir / ("src/" + number + ".jpg"), jpeg_text(static_cast<uint64_t>(i), 20, 16));
    std::vector<uint8_t> pixels(20 * 16, static_cast<uint8_t>(i % 5));
    const int width = i == 7 ? 10 : 20;  // one is skipped: not as large as its image
    write_text(dir / ("src/m" + number + ".png"),
               to_text(value_or_throw(data::encode_png({pixels.data(), width, 16, 1, width}))));
    list += number + ".jpg,c" + std::to_string(i % 3) + ",m" + number + ".png\n";
  }
  write_text(dir / "src/list.csv", list);
  IngestOptions options = options_for(dir / "src/list.csv", dir / "whole");
  options.fields = {"mask:mask"};
  options.commit_entries = 23;
  for (const Store store : {Store::kAuto, Store::kLink}) {
    options.store = store;
    options.part.reset();
    options.destination = dir / "whole";
    EXPECT_EQ(value_or_throw(ingest(options)).skipped.size(), 1u);
    value_or_throw(join(make_parts(options, dir, 3)));
    EXPECT_TRUE(dataset_files(dir / "joined") == dataset_files(dir / "whole"));
    for (const char* made : {"whole", "joined", "part1", "part2", "part3"})
      std::filesystem::remove_all(dir / made);
  }
}

TEST(Join, NamesADamagedPart) {
  TempDir dir;
  write_images(dir / "src", 100, 3, 120);
  IngestOptions options = options_for(dir / "src", dir / "whole");
  options.store = Store::kRaw;
  JoinOptions parts = make_parts(options, dir, 4);
  const std::string data = parts.parts[2] + "/data.mdb", note = parts.parts[2] + "/part.json";
  const std::string was = file_text(data), notes = file_text(note);
  const auto refused_with = [&](const std::string& message) {
    const Status status = join(parts).status();
    EXPECT_EQ(status.code(), ErrorCode::kCorrupt) << status.message();
    EXPECT_NE(status.message().find("part3"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
    EXPECT_FALSE(std::filesystem::exists(dir / "joined"));
  };
  std::string damaged = was;
  const size_t pixel = was.find("DLPRAW1") + 200;  // inside of a record
  damaged[pixel] = static_cast<char>(damaged[pixel] ^ 1);
  write_text(data, damaged);
  refused_with("(part 3/4) is corrupt: sample ");
  write_text(data, was.substr(0, was.size() / 2));
  refused_with("is corrupt");
  write_text(data, was);
  std::string other = notes;
  other[notes.find("\"files\"") + 10] = '7';
  write_text(note, other);
  refused_with("part.json is corrupt");
  write_text(note, notes.substr(0, notes.size() / 2));
  refused_with("part.json");
  write_text(note, notes);
  value_or_throw(join(parts));  // goes on: what was stored before is good
}

JoinOptions make_other_parts(const IngestOptions& options, const TempDir& dir) {
  std::filesystem::remove_all(dir / "part1");
  std::filesystem::remove_all(dir / "part2");
  return make_parts(options, dir, 2);
}

/// After the first of two parts' files.
std::string stopped_join(JoinOptions parts) {
  parts.stop_requested = [] { return true; };
  const Status stopped = join(parts).status();
  EXPECT_EQ(stopped.code(), ErrorCode::kCancelled);
  return stopped.message();
}

void expect_begun_with_others(const JoinOptions& parts) {
  const Status status = join(parts).status();
  EXPECT_NE(status.message().find("was started with other parts"), std::string::npos) << status.message();
}

TEST(Join, APartialOfOtherPartsIsRefused) {
  TempDir dir;
  write_images(dir / "src", 100, 3, 24);
  const IngestOptions options = options_for(dir / "src", dir / "whole");
  const std::string stopped = stopped_join(make_parts(options, dir, 2));
  EXPECT_NE(stopped.find("stopped after 1 of 100 files"), std::string::npos) << stopped;
  std::filesystem::remove_all(dir / "src/c0");
  expect_begun_with_others(make_other_parts(options, dir));
}

// The same files, of another quality.
TEST(Join, APartialOfPartsOfOtherOptionsIsRefused) {
  TempDir dir;
  write_images(dir / "src", 20, 3, 24);
  IngestOptions options = options_for(dir / "src", dir / "whole");
  options.store = Store::kJpeg;
  stopped_join(make_parts(options, dir, 2));
  options.quality = 20;
  expect_begun_with_others(make_other_parts(options, dir));
}

// A kill between the last write and the rename leaves it so.
TEST(Join, AFinishedPartialOfOtherPartsIsNotPublishedAsOfThese) {
  TempDir dir;
  write_images(dir / "src", 20, 3, 24);
  const IngestOptions options = options_for(dir / "src", dir / "whole");
  value_or_throw(join(make_parts(options, dir, 2)));
  // The note of a partial directory is beside what it holds: an interrupted join has it.
  const std::string note = [&] {
    auto other = value_or_throw(data::PartialDirectory::claim("join", dir / "other/joined"));
    return dir / "other/joined.partial";
  }();
  for (const auto& entry : std::filesystem::directory_iterator(dir / "joined"))
    std::filesystem::rename(entry.path(), note + "/" + entry.path().filename().string());
  std::filesystem::rename(note, dir / "joined.partial");
  std::filesystem::remove_all(dir / "joined");
  std::filesystem::remove_all(dir / "src/c0");
  const Status status = join(make_other_parts(options, dir)).status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_NE(status.message().find("joining other parts"), std::string::npos) << status.message();
  EXPECT_TRUE(std::filesystem::exists(dir / "joined.partial"));
}

TEST(Part, MorePartsThanFilesAreRefused) {
  TempDir dir;
  write_images(dir / "src", 5, 2, 24);
  IngestOptions options = options_for(dir / "src", dir / "dst");
  options.part = Part{6, 6};
  EXPECT_NE(ingest(options).status().message().find("--part 6/6, but there are only 5 files"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir / "dst.partial"));
  for (const char* text : {"0/4", "5/4", "x/4", "4", "1/2/3", "", "1/0", "-1/3", "1/70000"})
    EXPECT_EQ(parse_part(text).status().code(), ErrorCode::kMisuse) << text;
}

/// Runs `work` in a process of its own and kills it with SIGKILL after `wait`; true when it had ended.
template <class Work>
bool run_and_kill_work(const Work& work, std::chrono::microseconds wait) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  std::this_thread::sleep_for(wait);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) != 0) << "it failed";
  return WIFEXITED(status);
}

// Parts and the join are killed at random moments and asked for again.
TEST(Join, KilledPartsAndJoinsGiveTheSameBytes) {
  TempDir dir;
  write_images(dir / "src", 400, 3, 32);
  IngestOptions options = options_for(dir / "src", dir / "whole");
  options.commit_entries = 11;
  options.split = {0.8, 0.2};
  const auto begin = std::chrono::steady_clock::now();
  value_or_throw(ingest(options));
  double whole_us =
      std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  RandomStream random(2026, 1);
  int kills = 0;
  const auto until_done = [&](const auto& work) {
    for (double longest = 0.2 * whole_us;; longest *= 1.1) {
      if (run_and_kill_work(work,
                            std::chrono::microseconds(static_cast<int64_t>(longest * random.uniform()))))
        return;
      ++kills;
    }
  };
  const char* const more = std::getenv("DLPIPE_KILL_ROUNDS");
  const int rounds = more != nullptr ? std::atoi(more) : 1;
  for (int round = 0; round < rounds || (kills == 0 && round < rounds + 20); ++round) {
    const int before = kills;
    JoinOptions parts;
    parts.destination = dir / "joined";
    for (int64_t number = 1; number <= 3; ++number) {
      options.part = Part{number, 3};
      options.destination = dir / ("part" + std::to_string(number));
      parts.parts.push_back(options.destination);
      until_done([&] { return ingest(options).ok(); });
    }
    until_done([&] { return join(parts).ok(); });
    ASSERT_TRUE(dataset_files(dir / "joined") == dataset_files(dir / "whole"))
        << "after " << kills << " kills";
    for (const std::string& part : parts.parts) std::filesystem::remove_all(part);
    std::filesystem::remove_all(dir / "joined");
    if (kills == before) whole_us /= 2;  // it was timed while the machine had other work
  }
  EXPECT_GT(kills, 0);
  RecordProperty("kills", kills);
}

}  // namespace
}  // namespace dlpipe::ingest

// Coefficient records of linked images: batches are the same with and without them, whatever became of the cache or the
// files.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/text.h"
#include "dlpipe/loader.h"
#include "dlpipe/log.h"
#include "io/data/coefficient_cache.h"
#include "tests/pipeline/loader_testing.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

namespace fs = std::filesystem;
using Hashes = std::vector<uint64_t>;
using pipeline::open_loader;
using pipeline::read_hashes;

/// All JPEGs, PNGs and others of the codec's tests, every one twice, and some larger JPEGs.
void write_all_kinds(const std::string& root) {
  const std::string from = test_file("io/data/codec/images/");
  for (const auto& entry : fs::directory_iterator(from)) {
    if (entry.path().extension() == ".txt") continue;
    const std::string name = entry.path().filename().string();
    write_text(concat(root, "/c0/a_", name), file_text(entry.path().string()));
    write_text(concat(root, "/c1/b_", name), file_text(entry.path().string()));
  }
  for (uint64_t i = 0; i < 20; ++i)
    write_text(root + "/c2/" + std::to_string(100 + i) + ".jpg", jpeg_text(i, 200, 150));
}

void link(const std::string& source, const std::string& destination, bool late) {
  IngestOptions options = options_for(source, destination);
  options.store = Store::kLink;
  options.late_checksums = late;
  value_or_throw(ingest(options));
}

/// Waits until files written before are old enough to be coded.
void settle() {
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
}

pipeline::LoaderOptions options_of(const std::string& data, const std::string& cache = {}) {
  pipeline::LoaderOptions options = pipeline::two_epochs_of(data);
  options.augment = "rrc(24x24) hflip";
  options.epochs = 4;
  options.max_bad = 1000;
  options.cache = cache;
  return options;
}

int64_t epoch_of(const pipeline::Loader& loader) {
  return loader.batches_per_epoch();
}

/// Waits until the cache has so many records, or grows no more.
void wait_for_cache(pipeline::Loader& loader, int64_t records) {
  const auto stands_still = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (loader.stats().cache.records < records && !loader.stats().cache.is_full) {
    ASSERT_LT(std::chrono::steady_clock::now(), stands_still) << loader.stats().cache.records;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

/// JPEGs of a dataset that a cache can take: all but those of other colours.
int64_t jpegs_in(const std::string& directory) {
  const auto dataset = value_or_throw(data::Dataset::open(directory));
  data::TempDir dir;
  const auto cache =
      value_or_throw(data::CoefficientCache::open({dir / "c", dataset->id(), dataset->size()}));
  const auto coder = value_or_throw(data::CacheCoder::create(*dataset, *cache, {}));
  int64_t count = 0;
  for (int64_t i = 0; i < dataset->size(); ++i) count += coder->code(i).ok() ? 1 : 0;
  EXPECT_EQ(cache->records(), count);
  return count;
}

/// What the loader logs meanwhile.
class Said {
 public:
  Said() : before_(set_log_function([](LogLevel, std::string_view text) { said() += text; })) {
    said().clear();
  }
  ~Said() { set_log_function(before_); }
  static std::string& said() {
    static std::string text;
    return text;
  }

 private:
  LogFunction before_;
};

class Cache : public testing::TestWithParam<bool> {};

TEST_P(Cache, BatchesAreTheSameWithIt) {
  TempDir dir;
  write_all_kinds(dir / "src");
  link(dir / "src", dir / "linked", GetParam());
  settle();
  const int64_t fit = jpegs_in(dir / "linked");
  EXPECT_GT(fit, 50);
  const Hashes expected = read_hashes(*open_loader(options_of(dir / "linked")));
  for (const int threads : {2, 3}) {
    const std::string cache = dir / ("cache" + std::to_string(threads));
    pipeline::LoaderOptions options = options_of(dir / "linked", cache);
    options.threads = threads;
    Hashes hashes;
    {
      const auto loader = open_loader(options);
      hashes = read_hashes(*loader, epoch_of(*loader));
      wait_for_cache(*loader, fit - 7);  // the last batch, which is not whole, is left out
      EXPECT_LE(loader->stats().cache.records, fit);
      const Hashes rest = read_hashes(*loader);
      hashes.insert(hashes.end(), rest.begin(), rest.end());
      EXPECT_GT(loader->stats().cache.taken, 2 * (fit - 40));
      EXPECT_EQ(loader->stats().cache.withdrawn, 0);
    }
    EXPECT_EQ(hashes, expected) << threads;
    options.threads = 1;
    const auto again = open_loader(options);  // what is there is used from the start
    EXPECT_GE(again->stats().cache.records, fit - 7);
    EXPECT_EQ(read_hashes(*again), expected);
    EXPECT_GT(again->stats().cache.taken, 3 * (fit - 40));
  }
}

INSTANTIATE_TEST_SUITE_P(Checksums, Cache, testing::Bool(),
                         [](const auto& info) { return info.param ? "Late" : "Early"; });

/// A linked dataset of 24 JPEGs, and a cache that has them all.
struct Filled {
  explicit Filled(bool late = true) {
    for (uint64_t i = 0; i < 24; ++i) write_text(file(i), text(i));
    link(dir / "src", dir / "linked", late);
    settle();
    expected = read_hashes(*open_loader(options_of(dir / "linked")));
    const auto dataset = value_or_throw(data::Dataset::open(dir / "linked"));
    const auto filled = value_or_throw(data::CoefficientCache::open({dir / "cache", dataset->id(), 24}));
    const auto coder = value_or_throw(data::CacheCoder::create(*dataset, *filled, {}));
    for (int64_t i = 0; i < 24; ++i) throw_if_error(coder->code(i));
  }
  std::string file(uint64_t number) const {
    return dir / ("src/c0/" + std::to_string(100 + number) + ".jpg");
  }
  static std::string text(uint64_t number) { return jpeg_text(number, 160, 120); }
  std::unique_ptr<pipeline::Loader> open() const {
    return open_loader(options_of(dir / "linked", dir / "cache"));
  }
  std::string index() const { return file_text(dir / "cache/index"); }
  std::string records() const { return file_text(dir / "cache/records"); }

  TempDir dir;
  Hashes expected;
};

TEST(CoefficientCache, CutOffAtAnyPlaceItIsUsedAsFarAsItGoes) {
  const Filled filled;
  const std::string index = filled.index();
  const std::string records = filled.records();
  ASSERT_EQ(index.size(), 48u * 25);
  RandomStream random(5, 0);
  for (int round = 0; round < 12; ++round) {
    const size_t rows = round == 0 ? 0 : random.below(static_cast<uint32_t>(index.size() + 1));
    write_text(filled.dir / "cache/index", index.substr(0, rows));
    write_text(
        filled.dir / "cache/records",
        round % 3 == 1 ? records.substr(0, random.below(static_cast<uint32_t>(records.size()))) : records);
    const auto loader = filled.open();
    EXPECT_LE(loader->stats().cache.records, static_cast<int64_t>(rows / 48));
    EXPECT_EQ(read_hashes(*loader), filled.expected) << rows;
    EXPECT_EQ(loader->stats().cache.withdrawn, 0);
  }
}

TEST(CoefficientCache, DamagedRecordsAreSaidAndReadFromTheirFiles) {
  const Filled filled;
  std::string records = filled.records();
  const auto middle_of = [&](size_t row) {
    const std::string index = filled.index();
    const auto bytes = std::as_bytes(std::span(index)).subspan(48 * (row + 1), 48);
    uint64_t begin = 0;
    uint64_t size = 0;
    std::memcpy(&begin, bytes.data() + 8, sizeof begin);
    std::memcpy(&size, bytes.data() + 16, sizeof size);
    return begin + size / 2;
  };
  for (const size_t row : {3, 11, 17}) records[middle_of(row)] ^= 4;
  write_text(filled.dir / "cache/records", records);
  const Said said;
  {
    const auto loader = filled.open();
    EXPECT_EQ(read_hashes(*loader), filled.expected);
    const CacheStats stats = loader->stats().cache;
    EXPECT_EQ(stats.withdrawn, 3);
    EXPECT_EQ(stats.records, 21);
    EXPECT_GE(stats.taken, 4 * 21 - 3);
  }
  expect_part(
      Said::said(),
      "is not used, and its file is read instead: [cache] its bytes differ from those that were written");
  const auto again = filled.open();
  EXPECT_EQ(again->stats().cache.records, 21) << "they are remembered as withdrawn";
  read_hashes(*again, 2 * epoch_of(*again));
  wait_for_cache(*again, 24);
  EXPECT_EQ(again->stats().cache.records, 24) << "and made anew";
}

TEST(CoefficientCache, ADamagedIndexNeverMakesABatchWrong) {
  const Filled filled;
  const std::string index = filled.index();
  RandomStream random(6, 0);
  const Said said;
  for (int round = 0; round < 10; ++round) {
    std::string flipped = index;
    for (int i = 0; i < 5; ++i)
      flipped[random.below(static_cast<uint32_t>(index.size()))] ^= static_cast<char>(1 << random.below(8));
    write_text(filled.dir / "cache/index", flipped);
    EXPECT_EQ(read_hashes(*filled.open()), filled.expected) << round;
  }
}

class ChangedFiles : public testing::TestWithParam<bool> {};

TEST_P(ChangedFiles, AreFound) {
  const Filled filled(GetParam());
  if (GetParam()) {
    const auto first = open_loader(options_of(filled.dir / "linked"));  // takes the late checksums
    read_hashes(*first, epoch_of(*first));
  }
  const auto time = fs::last_write_time(filled.file(3));
  std::string other = Filled::text(3);
  other[other.size() - 20] ^= 1;
  write_text(filled.file(3), other);
  fs::last_write_time(filled.file(3), time);  // as large and as old as it was
  fs::remove(filled.file(4));
  fs::last_write_time(filled.file(5), fs::last_write_time(filled.file(5)) + std::chrono::seconds(3));
  const Said said;
  const Hashes without = read_hashes(*open_loader(options_of(filled.dir / "linked")));
  EXPECT_NE(without, filled.expected);
  pipeline::LoaderOptions options = options_of(filled.dir / "linked", filled.dir / "cache");
  options.quarantine_file = filled.dir / "quarantine.txt";
  const auto loader = open_loader(options);
  EXPECT_EQ(read_hashes(*loader), without);
  EXPECT_EQ(loader->stats().substituted, 2);
  EXPECT_EQ(loader->stats().cache.withdrawn, 2)
      << "of one it isn't known whether it changed: its file is gone";
  expect_part(file_text(filled.dir / "quarantine.txt"), "103.jpg");
  expect_part(file_text(filled.dir / "quarantine.txt"), "104.jpg");
  expect_part(Said::said(), "its file, or the file's time, changed since");
}

INSTANTIATE_TEST_SUITE_P(Checksums, ChangedFiles, testing::Bool(),
                         [](const auto& info) { return info.param ? "Late" : "Early"; });

TEST(CoefficientCache, DamageInWhatTheDatasetStoresIsFound) {
  TempDir dir;
  const Filled filled(false);
  fs::copy(filled.dir / "linked", dir / "corrupt", fs::copy_options::recursive);
  std::string dataset = file_text(dir / "corrupt/data.mdb");
  const size_t at = dataset.find("c0/107.jpg");  // of the sample's path, and once more of its link
  ASSERT_NE(at, std::string::npos);
  dataset[at] = 'x';
  write_text(dir / "corrupt/data.mdb", dataset);
  const Hashes without = read_hashes(*open_loader(options_of(dir / "corrupt")));
  EXPECT_NE(without, filled.expected);
  const Said said;
  EXPECT_EQ(read_hashes(*open_loader(options_of(dir / "corrupt", filled.dir / "cache"))), without);
}

TEST(CoefficientCache, StopsGrowingWhereItMayTakeNoMoreAndSaysSo) {
  const Filled filled;
  const Said said;
  pipeline::LoaderOptions options = options_of(filled.dir / "linked", filled.dir / "small");
  options.cache_bytes = filled.records().size() / 3;
  const auto loader = open_loader(options);
  Hashes hashes = read_hashes(*loader, epoch_of(*loader));
  wait_for_cache(*loader, 24);
  EXPECT_TRUE(loader->stats().cache.is_full);
  EXPECT_LE(loader->stats().cache.bytes, static_cast<int64_t>(options.cache_bytes));
  EXPECT_GT(loader->stats().cache.records, 2);
  const Hashes rest = read_hashes(*loader);
  hashes.insert(hashes.end(), rest.begin(), rest.end());
  EXPECT_EQ(hashes, filled.expected);
  EXPECT_GT(loader->stats().cache.taken, 0);
  expect_part(Said::said(), "(--cache-size); the cached images are used");
}

TEST(CoefficientCache, LeavesRoomOnItsDisk) {
  const Filled filled;
  const Said said;
  const auto dataset = value_or_throw(data::Dataset::open(filled.dir / "linked"));
  data::CacheOptions options{filled.dir / "other", dataset->id(), 24};
  options.keep_free_bytes = uint64_t{1} << 62;
  const auto cache = value_or_throw(data::CoefficientCache::open(options));
  const auto coder = value_or_throw(data::CacheCoder::create(*dataset, *cache, {}));
  EXPECT_TRUE(coder->code(0).ok());
  EXPECT_TRUE(cache->is_full());
  EXPECT_EQ(cache->records(), 0);
  expect_part(Said::said(), "would be left on its disk");
}

TEST(CoefficientCache, OfAnotherDatasetBeginsAnew) {
  const Filled filled;
  TempDir dir;
  for (uint64_t i = 0; i < 8; ++i)
    write_text(dir / ("src/c0/" + std::to_string(i) + ".jpg"), Filled::text(i + 50));
  link(dir / "src", dir / "linked", true);
  const Hashes expected = read_hashes(*open_loader(options_of(dir / "linked")));
  const Said said;
  const auto loader = open_loader(options_of(dir / "linked", filled.dir / "cache"));
  EXPECT_EQ(loader->stats().cache.records, 0);
  EXPECT_EQ(read_hashes(*loader), expected);
  expect_part(Said::said(), "holds records of another dataset");
}

// As a power cut leaves it: the file's size is there, its bytes aren't.
TEST(CoefficientCache, BeginsAnewWhereItsIndexIsDamaged) {
  for (const char byte : {'\0', 'x'}) {
    const Filled filled;
    write_text(filled.dir / "cache/index", std::string(filled.index().size(), byte));
    const Said said;
    const auto loader = filled.open();
    EXPECT_EQ(loader->stats().cache.records, 0);
    EXPECT_EQ(read_hashes(*loader), filled.expected);
    expect_part(Said::said(), "its index is corrupt");
  }
}

TEST(CoefficientCache, LeavesOthersFilesAlone) {
  const Filled filled;
  const std::string text(100, 'x');
  const auto refused = [&](const std::string& folder) {
    const auto loader = pipeline::Loader::open(options_of(filled.dir / "linked", folder));
    EXPECT_EQ(loader.status().code(), ErrorCode::kMisuse);
    expect_part(loader.status().message(), "does not belong to a cache");
  };
  write_text(filled.dir / "mine/records", text);
  refused(filled.dir / "mine");
  EXPECT_EQ(file_text(filled.dir / "mine/records"), text);
  for (const char* index : {"", "dlp"}) {  // as a cache's that was cut off
    write_text(filled.dir / "mine/index", index);
    refused(filled.dir / "mine");
    EXPECT_EQ(file_text(filled.dir / "mine/records"), text);
  }
  for (const std::string& index : {text, std::string("dlp\n")}) {
    write_text(filled.dir / "git/index", index);
    refused(filled.dir / "git");
    EXPECT_EQ(file_text(filled.dir / "git/index"), index);
  }
}

TEST(CoefficientCache, IsFreeOnceItIsClosedWhateverAForkedChildHolds) {
  const Filled filled;
  const auto dataset = value_or_throw(data::Dataset::open(filled.dir / "linked"));
  const data::CacheOptions options{filled.dir / "other", dataset->id(), 24};
  auto cache = value_or_throw(data::CoefficientCache::open(options));
  const pid_t child = ::fork();
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  EXPECT_FALSE(data::CoefficientCache::open(options).ok());
  cache.reset();
  EXPECT_TRUE(data::CoefficientCache::open(options).ok());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(CoefficientCache, IsRefusedWhereItWouldDoNothing) {
  const Filled filled;
  value_or_throw(ingest(options_for(filled.dir / "src", filled.dir / "stored")));
  const auto refused = [](const pipeline::LoaderOptions& options) {
    const auto loader = pipeline::Loader::open(options);
    EXPECT_EQ(loader.status().code(), ErrorCode::kMisuse);
    return loader.status().message();
  };
  expect_part(refused(options_of(filled.dir / "stored", filled.dir / "c")), "stores its records");
  pipeline::LoaderOptions sized = options_of(filled.dir / "linked");
  sized.cache_bytes = 1000;
  expect_part(refused(sized), "also give --cache");
  data::Pixels pixels(31, 17, 3);
  write_text(filled.dir / "png/c0/a.png", to_text(*data::encode_png(pixels.view())));
  link(filled.dir / "png", filled.dir / "pngs", true);
  pipeline::LoaderOptions pngs = options_of(filled.dir / "pngs", filled.dir / "c");
  pngs.batch = 1;
  expect_part(refused(pngs), "is read as a JPEG");
  const auto loader = filled.open();
  expect_part(refused(options_of(filled.dir / "linked", filled.dir / "cache")), "in use by another loader");
}

}  // namespace
}  // namespace dlpipe::ingest

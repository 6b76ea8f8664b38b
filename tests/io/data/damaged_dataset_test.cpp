// Damage at rest: one wrong bit anywhere in data.mdb, or a file cut short. A dataset then is refused, or the
// record is, or nothing that is read has changed.
#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "io/data/lmdb_file.h"
#include "io/data/schema.h"
#include "io/data/verify.h"
#include "tests/io/data/written_dataset.h"

namespace dlpipe::data {
namespace {

constexpr size_t kPage = 4096;

/// What a reader sees of a dataset: rows, records and skipped files; where it is refused, nothing.
struct Seen {
  bool refused = false;
  int64_t bad = 0;
  std::vector<RecordHeader> rows;
  std::vector<int64_t> counts;
  PixelStats stats;
  std::optional<std::vector<std::string>> skipped;  // none: the list is refused
  std::string description;                          // what the id doesn't cover
};

Seen look(const std::string& directory) {
  Seen seen;
  const auto dataset = Dataset::open(directory);
  if (!dataset.ok()) {
    EXPECT_NE(dataset.status().message().find(directory), std::string::npos) << dataset.status().message();
    return {.refused = true, .rows = {}, .counts = {}, .stats = {}, .skipped = {}, .description = {}};
  }
  const Dataset& d = **dataset;
  if (const auto skipped = d.skipped(); skipped.ok()) {
    seen.skipped.emplace();
    for (const Dataset::Skipped& one : *skipped)
      seen.skipped->push_back(concat(one.place, " ", one.path, " ", one.reason));
  }
  seen.description = concat(d.records_per_value(), d.compressed() ? " zstd " : " none ",
                            d.links().value_or("no links"), " ", d.id());
  auto reader = value_or_throw(d.reader());
  for (int64_t i = 0; i < d.size(); ++i) {
    seen.rows.push_back(value_or_throw(d.header(i)));
    const auto record = reader->record(i);
    const bool good = record.ok() && checksum64(*record) == seen.rows.back().checksum &&
                      reader->check_packing(i).ok() && parse_record(d, *record).ok();
    seen.bad += good ? 0 : 1;
  }
  seen.counts.assign(d.class_counts().begin(), d.class_counts().end());
  seen.stats = d.pixel_stats();
  return seen;
}

bool same_row(const RecordHeader& a, const RecordHeader& b) {
  return a.width == b.width && a.height == b.height && a.channels == b.channels &&
         a.orientation == b.orientation && a.layout == b.layout && a.size_bytes == b.size_bytes &&
         a.label == b.label && a.checksum == b.checksum;
}

/// Nothing that was read is another than in the whole dataset.
void expect_nothing_wrong(const Seen& seen, const Seen& whole, size_t bit) {
  if (seen.refused) return;
  ASSERT_EQ(seen.rows.size(), whole.rows.size()) << "bit " << bit;
  for (size_t i = 0; i < seen.rows.size(); ++i)
    ASSERT_TRUE(same_row(seen.rows[i], whole.rows[i])) << "bit " << bit;
  ASSERT_EQ(seen.counts, whole.counts) << "bit " << bit;
  ASSERT_EQ(seen.stats.mean, whole.stats.mean) << "bit " << bit;
  ASSERT_EQ(seen.stats.std, whole.stats.std) << "bit " << bit;
  ASSERT_EQ(seen.description, whole.description) << "bit " << bit;
  if (seen.skipped) {
    ASSERT_EQ(*seen.skipped, *whole.skipped) << "bit " << bit;
  }
}

/// The bytes that hold structure: both meta pages, and of every tree's page what isn't a value in it.
std::vector<size_t> structure_bytes(const std::string& file) {
  std::vector<size_t> places;
  const auto u16 = [&](size_t at) {
    return static_cast<size_t>(static_cast<unsigned char>(file[at])) |
           static_cast<size_t>(static_cast<unsigned char>(file[at + 1])) << 8;
  };
  for (size_t at = 0; at < 2 * kPage; at += kPage) {
    for (size_t i = 0; i < 200; ++i) places.push_back(at + i);
  }
  for (size_t page = 2 * kPage; page + kPage <= file.size(); page += kPage) {
    const size_t flags = u16(page + 10);
    const size_t lower = u16(page + 12);
    if ((flags != 1 && flags != 2) || lower < 16 || lower > kPage) continue;
    for (size_t i = 0; i < lower; ++i) places.push_back(page + i);
    for (size_t i = 16; i + 2 <= lower; i += 2) {
      for (size_t k = 0; k < 24; ++k) places.push_back(std::min(page + u16(page + i) + k, file.size() - 1));
    }
  }
  return places;
}

class DamagedDataset : public testing::TestWithParam<std::pair<int64_t, bool>> {};

TEST_P(DamagedDataset, NoWrongBitCrashesOrIsTakenForGood) {
  TempDir dir;
  const auto [per_value, zstd] = GetParam();
  write_dataset(dir / "d", image_schema(per_value, zstd), 1100, per_value == 1 ? 700 : 60, 400);
  const std::string whole = file_text(dir / "d/data.mdb");
  const Seen expected = look(dir / "d");
  ASSERT_FALSE(expected.refused);
  ASSERT_EQ(expected.bad, 0);
  const std::vector<size_t> structure = structure_bytes(whole);
  ASSERT_GT(structure.size(), 1000u);
  RandomStream random(static_cast<uint64_t>(per_value), zstd ? 1 : 0);
  int refused = 0;
  int bad = 0;
  for (int i = 0; i < 500; ++i) {
    const size_t at = i % 3 == 2 ? random.below(static_cast<uint32_t>(whole.size()))
                                 : structure[random.below(static_cast<uint32_t>(structure.size()))];
    const size_t bit = 8 * at + random.below(8);
    std::string file = whole;
    file[at] = static_cast<char>(file[at] ^ (1 << bit % 8));
    write_text(dir / "d/data.mdb", file);
    const Seen seen = look(dir / "d");
    expect_nothing_wrong(seen, expected, bit);
    if (HasFatalFailure()) return;
    refused += seen.refused ? 1 : 0;
    bad += seen.bad > 0 ? 1 : 0;
  }
  EXPECT_GT(refused, 5);
  EXPECT_GT(bad, 5);
}

INSTANTIATE_TEST_SUITE_P(Forms, DamagedDataset,
                         testing::Values(std::pair(int64_t{1}, false), std::pair(int64_t{16}, false),
                                         std::pair(int64_t{16}, true)));

TEST(DamagedDataset, APageNumberBeyondTheEndIsNotPrinted) {
  TempDir dir;
  write_dataset(dir / "d", image_schema(1, false), 3, 20, 10);
  std::string file = file_text(dir / "d/data.mdb");
  constexpr size_t kRootOfMain = 16 + 24 + 48 + 40;
  for (const size_t page : {size_t{0}, kPage})
    file.replace(page + kRootOfMain, 8, "\xfd" + std::string(7, '\xff'));
  write_text(dir / "d/data.mdb", file);
  const std::string message(Dataset::open(dir / "d").status().message());
  EXPECT_NE(message.find("data.mdb is corrupt"), std::string::npos) << message;
  EXPECT_EQ(message.find("18446744073709551613"), std::string::npos) << message;
}

/// Every bit of what names the list of skipped files and holds it, and of the description.
TEST(DamagedDataset, TheListOfSkippedFilesAndTheDescriptionAreCovered) {
  TempDir dir;
  Schema schema = image_schema(16);
  schema.links = "/images/of/somebody";
  write_dataset(dir / "d", schema, 60, 60, 20);
  const std::string whole = file_text(dir / "d/data.mdb");
  const Seen expected = look(dir / "d");
  ASSERT_FALSE(expected.refused);
  ASSERT_EQ(expected.skipped, (std::vector<std::string>{"3 bad/3 corrupt"}));
  std::set<size_t> places;
  for (const std::string text : {"skipped", "bad/3", "{\"format\"", "\"text_checksum\":\""}) {
    for (size_t at = whole.find(text); at != std::string::npos; at = whole.find(text, at + 1)) {
      const size_t end = text[0] == '{' ? whole.find('}', whole.find("text_checksum", at)) + 1 : at + 64;
      for (size_t i = at - std::min<size_t>(at, 32); i < std::min(end, whole.size()); ++i) places.insert(i);
    }
  }
  ASSERT_GT(places.size(), 500u);
  size_t lists_refused = 0;
  for (const size_t at : places) {
    std::string file = whole;
    file[at] = static_cast<char>(file[at] ^ (1 << at % 8));
    write_text(dir / "d/data.mdb", file);
    const Seen seen = look(dir / "d");
    expect_nothing_wrong(seen, expected, 8 * at + at % 8);
    if (HasFatalFailure()) return;
    lists_refused += seen.refused || seen.skipped ? 0 : 1;
    if (seen.refused || seen.skipped) continue;
    const auto dataset = value_or_throw(Dataset::open(dir / "d"));
    EXPECT_FALSE(verify(*dataset, {}).ok()) << "byte " << at;
  }
  EXPECT_GT(lists_refused, 5u);
}

// As version 0.9 and before wrote them.
TEST(DamagedDataset, DescriptionsWithoutChecksumsAreRead) {
  DatasetInfo info;
  info.schema = image_schema(16);
  info.class_counts = {1, 2};
  info.id = "0123456789abcdef";
  const std::string old = to_json(info);
  EXPECT_EQ(old.find("checksum"), std::string::npos);
  EXPECT_TRUE(value_or_throw(parse_dataset_info(old)).is_whole);
  info.skipped = SkippedSum{3, 0x123};
  const std::string text = to_json(info);
  const DatasetInfo read = value_or_throw(parse_dataset_info(text));
  EXPECT_TRUE(read.is_whole);
  EXPECT_EQ(read.skipped, info.skipped);
  EXPECT_EQ(identity_json(read), identity_json(info)) << "equal contents keep their id";
  for (size_t at = 0; at < text.size(); ++at) {
    std::string wrong = text;
    wrong[at] = static_cast<char>(wrong[at] ^ 4);
    const auto again = parse_dataset_info(wrong);
    EXPECT_FALSE(again.ok() && again->is_whole) << wrong;
  }
}

TEST(DamagedDataset, TheIdCoversLabelsSizesCountsAndStatistics) {
  TempDir dir;
  write_dataset(dir / "d", image_schema(16), 60, 300, 100);
  const std::string whole = file_text(dir / "d/data.mdb");
  std::string row(32, '\0');  // of sample 7
  store_row(reinterpret_cast<std::byte*>(row.data()),
            value_or_throw(value_or_throw(Dataset::open(dir / "d"))->header(7)));
  const size_t at = whole.find(row);
  ASSERT_NE(at, std::string::npos);
  const auto refuse = [&](size_t place, char flip, const char* what) {
    std::string file = whole;
    file[place] = static_cast<char>(file[place] ^ flip);
    write_text(dir / "d/data.mdb", file);
    const Status status = Dataset::open(dir / "d").status();
    EXPECT_EQ(status.code(), ErrorCode::kCorrupt) << what;
    EXPECT_NE(status.message().find("dlpipe verify"), std::string::npos) << what << ": " << status.message();
    const auto dataset = value_or_throw(Dataset::open(dir / "d", {}, Dataset::IdCheck::kLater));
    return value_or_throw(verify(*dataset, {}));
  };
  const VerifyReport label = refuse(at + 16, 1, "label");
  EXPECT_FALSE(label.id_matches);
  ASSERT_EQ(label.bad.size(), 60u);  // the images are none; the label is looked at first
  EXPECT_EQ(label.bad[7].reason, "the label is 1 in the record, but 0 in the header table");
  EXPECT_FALSE(refuse(at, 64, "width").id_matches);
  EXPECT_FALSE(refuse(at + 8, 2, "size").id_matches);
  EXPECT_FALSE(refuse(at + 15, 1, "the byte that is 0").id_matches);
  EXPECT_FALSE(refuse(whole.find("\"class_counts\":[30,30]") + 17, 1, "class counts").id_matches);
  EXPECT_FALSE(refuse(whole.find("\"pixel_stats\":{\"mean\":[0.2") + 25, 1, "pixel statistics").id_matches);
  EXPECT_FALSE(refuse(whole.find("\"id\":\"") + 6, 1, "id").id_matches);
}

/// The dataset as format version 1 had it: another id, which covers less, and no checksums.
void make_version_1(const std::string& directory) {
  const auto dataset = value_or_throw(Dataset::open(directory));
  DatasetInfo info;
  info.version = 1;
  info.schema.fields.assign(dataset->fields().begin(), dataset->fields().end());
  info.schema.classes.assign(dataset->classes().begin(), dataset->classes().end());
  DatasetIdHash hash;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    std::array<std::byte, kRowBytes> row{};
    store_row(row.data(), value_or_throw(dataset->header(i)));
    hash.add_rows(row);
  }
  std::string file = file_text(directory + "/data.mdb");
  file.replace(file.find(dataset->id()), 16, hash.id(info));
  file.replace(file.find("\"version\":2"), 11, "\"version\":1");
  const size_t checksums = file.find(",\"skipped\":");
  const size_t end = file.find("\"}", file.find("\"text_checksum\"", checksums));
  file.replace(checksums, end + 1 - checksums, end + 1 - checksums, ' ');
  write_text(directory + "/data.mdb", file);
}

TEST(DamagedDataset, Version1StillOpensAndItsRowsAndCountsAreChecked) {
  TempDir dir;
  write_dataset(dir / "d", image_schema(16), 60, 300, 100);
  const std::string id = value_or_throw(Dataset::open(dir / "d"))->id();
  make_version_1(dir / "d");
  const std::string whole = file_text(dir / "d/data.mdb");
  const auto dataset = value_or_throw(Dataset::open(dir / "d"));
  EXPECT_EQ(dataset->format_version(), 1);
  EXPECT_NE(dataset->id(), id);
  EXPECT_TRUE(value_or_throw(verify(*dataset, {})).id_matches);
  std::string file = whole;
  file[file.find("\"class_counts\":[30,30]") + 17] ^= 1;
  write_text(dir / "d/data.mdb", file);
  EXPECT_FALSE(Dataset::open(dir / "d").ok());
  file = whole;
  file[file.find("\"version\":1") + 10] = '7';
  write_text(dir / "d/data.mdb", file);
  const Status newer = Dataset::open(dir / "d").status();
  EXPECT_EQ(newer.code(), ErrorCode::kUnsupported);
  EXPECT_NE(newer.message().find("reads versions 1 to 6"), std::string::npos) << newer.message();
}

TEST(DamagedDataset, AnUnfinishedFileCutShortOrDamagedIsRefusedByTheWriter) {
  TempDir dir;
  const Schema schema = image_schema(1);
  std::filesystem::create_directories(dir / "d");
  {
    auto writer = value_or_throw(DatasetWriter::open(dir / "d", schema, kMap));
    RecordPacker packer(schema);
    for (int64_t i = 0; i < 700; ++i) {
      expect_ok(writer->add(record_for(packer, i, 1000)));
      if (i % 90 == 89) expect_ok(writer->commit(static_cast<uint64_t>(i) + 1));
    }
  }
  const std::string whole = file_text(dir / "d/data.mdb");
  const auto go_on = [&]() -> Status {
    DLPIPE_ASSIGN_OR_RETURN(auto writer, DatasetWriter::open(dir / "d", schema, kMap));
    RecordPacker packer(schema);
    for (int64_t i = writer->samples(); i < 800; ++i)
      DLPIPE_RETURN_IF_ERROR(writer->add(record_for(packer, i, 1000)));
    return writer->finish(800);
  };
  expect_ok(go_on());
  for (const size_t keep : {whole.size() - kPage, whole.size() / 2, 3 * kPage, kPage, size_t{100}}) {
    write_text(dir / "d/data.mdb", std::string_view(whole).substr(0, keep));
    EXPECT_EQ(go_on().code(), ErrorCode::kCorrupt) << keep;
  }
  const std::vector<size_t> structure = structure_bytes(whole);
  RandomStream random(3, 3);
  int refused = 0;
  for (int i = 0; i < 250; ++i) {
    const size_t at = structure[random.below(static_cast<uint32_t>(structure.size()))];
    std::string file = whole;
    file[at] = static_cast<char>(file[at] ^ (1 << random.below(8)));
    write_text(dir / "d/data.mdb", file);
    refused += go_on().ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 20);
}

}  // namespace
}  // namespace dlpipe::data

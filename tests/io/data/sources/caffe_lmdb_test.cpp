#include <gtest/gtest.h>
#include <lmdb.h>

#include <map>

#include "dlpipe/random.h"
#include "dlpipe/source.h"
#include "io/data/codec/bitmaps.h"
#include "tests/io/data/sources/wire_writing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

void write_lmdb(const std::string& folder, const std::map<std::string, std::string>& records) {
  std::filesystem::create_directories(folder);
  MDB_env* env = nullptr;
  MDB_txn* txn = nullptr;
  MDB_dbi dbi = 0;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_open(env, folder.c_str(), MDB_NOLOCK, 0644), 0);
  ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
  ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
  for (const auto& [key, value] : records) {
    MDB_val k{key.size(), const_cast<char*>(key.data())};
    MDB_val v{value.size(), const_cast<char*>(value.data())};
    ASSERT_EQ(mdb_put(txn, dbi, &k, &v, 0), 0);
  }
  ASSERT_EQ(mdb_txn_commit(txn), 0);
  mdb_env_close(env);
}

std::string raw_datum(const std::string& planes, uint64_t channels, uint64_t label) {
  return wire_number(1, channels) + wire_number(2, 2) + wire_number(3, 3) + wire_bytes(4, planes) +
         wire_number(5, label);
}

TEST(CaffeLmdbSource, RawAndEncodedRecordsAreRead) {
  TempDir dir;
  write_lmdb(dir / "db", {{"0_a", raw_datum("BBBBBbGGGGGgRRRRRr", 3, 12)},
                          {"1_b", raw_datum("abcdef", 1, 3)},
                          {"2_c", wire_bytes(4, "a JPEG") + wire_number(5, 3) + wire_number(7, 1)},
                          {"3_d", raw_datum("abcde", 1, 3)},
                          {"4_e", wire_bytes(6, "ffff") + wire_number(5, 1)},
                          {"5_f", wire_bytes(4, "a JPEG") + wire_number(7, 1)},
                          {"6_g", "\xff\xff"}});
  auto source = value_or_throw(open_source({dir / "db", ""}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"3", "12"}));
  ASSERT_EQ(listing.entries.size(), 7u);
  EXPECT_EQ(listing.entries[0].label, 1);
  const std::vector<std::byte> raw = value_or_throw(source->read(listing.entries[0]));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(raw.data()) + kRawHeaderBytes, 18),
            "RGBRGBRGBRGBRGBrgb");
  EXPECT_EQ(value_or_throw(source->read(listing.entries[2])).size(), 6u);
  for (size_t i = 3; i < 7; ++i) EXPECT_FALSE(listing.entries[i].problem.empty()) << i;
}

TEST(CaffeLmdbSource, SeveralInAFolderAreNamed) {
  TempDir dir;
  for (const char* name : {"root/train_lmdb", "root/val_lmdb"})
    write_lmdb(dir / name, {{"0_a", raw_datum("abcdef", 1, 3)}});
  const auto source = open_source({dir / "root", ""});
  ASSERT_FALSE(source.ok());
  EXPECT_NE(source.status().message().find(
                "contains the LMDBs 'train_lmdb', 'val_lmdb'; name them: dlpipe ingest " +
                (dir / "root/train_lmdb")),
            std::string::npos)
      << source.status().message();
  // A folder of images in which somebody made one is a folder of images.
  write_lmdb(dir / "images/made", {{"0_a", raw_datum("abcdef", 1, 3)}});
  write_text(dir / "images/cat/1.jpg", "x");
  auto images = value_or_throw(open_source({dir / "images", ""}));
  EXPECT_EQ(value_or_throw(images->list()).entries.size(), 1u);
}

TEST(CaffeLmdbSource, DamagedFilesAreValues) {
  TempDir dir;
  std::map<std::string, std::string> records;
  for (int i = 0; i < 300; ++i)
    records[std::to_string(1000 + i)] = raw_datum("abcdef", 1, static_cast<uint64_t>(i % 5));
  write_lmdb(dir / "db", records);
  const std::string good = file_text(dir / "db/data.mdb");
  write_text(dir / "db/data.mdb", good.substr(0, good.size() / 2));
  EXPECT_FALSE(value_or_throw(open_source({dir / "db", ""}))->list().ok());
  RandomStream random(5, 5);
  for (int round = 0; round < 200; ++round) {
    std::string text = good;
    for (int i = 0; i < 4; ++i)
      text[random.below(static_cast<uint32_t>(text.size()))] = static_cast<char>(random.below(256));
    write_text(dir / "db/data.mdb", text);
    auto source = value_or_throw(open_source({dir / "db", ""}));
    const auto listing = source->list();
    if (!listing.ok()) continue;
    for (const SourceEntry& entry : listing->entries) (void)source->read(entry).ok();
  }
}

}  // namespace
}  // namespace dlpipe::data

// Sources of every kind that hold no sample at all.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "dlpipe/source.h"
#include "io/data/sources/source_file.h"
#include "tests/io/data/sources/tar_writing.h"
#include "tests/io/data/sources/wire_writing.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

using data::le_bytes;
using data::tar_end;
using data::tar_file;

std::string idx_without_items(const std::vector<uint32_t>& dims) {
  std::string text("\0\0\x08", 3);
  text += static_cast<char>(dims.size());
  for (const uint32_t dim : dims)
    for (const int shift : {24, 16, 8, 0}) text += static_cast<char>(dim >> shift);
  return text;
}

std::string npy_of_none(const std::string& shape) {
  std::string dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + shape + "), }";
  dict += std::string(63 - (10 + dict.size()) % 64, ' ') + "\n";
  return "\x93NUMPY\x01" + std::string(1, '\0') + le_bytes(dict.size(), 2) + dict;
}

struct Nothing {
  std::string source;  // that is meant
  std::string given;   // below the directory
  std::vector<std::pair<std::string, std::string>> files;
};

std::vector<Nothing> all_kinds() {
  const std::string archive_of_archives = tar_file("cat.tar", tar_end()) +
                                          tar_file("dog.tar", tar_file("note.txt", "no image") + tar_end()) +
                                          tar_end();
  std::string beton_field(1 + 16 + 1024, '\0');
  beton_field.replace(0, 6, std::string("\x02") + "image");
  const std::string beton = le_bytes(2, 2) + le_bytes(1, 2) + le_bytes(1 << 21, 4) + le_bytes(0, 8) +
                            le_bytes(1065, 8) + beton_field;
  return {
      {"folder", "d", {{"d/note.md", "x"}}},
      {"folder", "d", {{"d/cat/note.md", "x"}, {"d/dog/note.md", "x"}}},
      {"folder", "d", {{"d/train/cat/note.md", "x"}, {"d/val/cat/note.md", "x"}}},
      {"imagefolder", "d", {{"d/metadata.csv", "file_name,label\n"}}},
      {"manifest", "l.csv", {{"l.csv", ""}}},
      {"manifest", "l.csv", {{"l.csv", "path,label\n"}}},
      {"manifest", "l.tsv", {{"l.tsv", "path\tlabel\n\n"}}},
      {"manifest", "l.jsonl", {{"l.jsonl", "\n"}}},
      {"idx",
       "d",
       {{"d/x-images-idx3-ubyte", idx_without_items({0, 3, 4})},
        {"d/x-labels-idx1-ubyte", idx_without_items({0})}}},
      {"parquet", "t.parquet", {{"t.parquet", "PAR1"}}},
      {"tar", "a.tar", {{"a.tar", tar_end()}}},
      {"tar", "a.tar", {{"a.tar", tar_file("note.txt", "x") + tar_end()}}},
      {"tar", "a.tar", {{"a.tar", archive_of_archives}}},
      {"cifar", "d", {{"d/data_batch_1.bin", ""}, {"d/test_batch.bin", ""}}},
      {"tfrecord", "a.tfrecord", {{"a.tfrecord", ""}}},
      {"beton", "a.beton", {{"a.beton", beton}}},
      {"box_list", "l.csv", {{"l.csv", "filename,width,height,class,xmin,ymin,xmax,ymax\n"}}},
      {"coco", "c.json", {{"c.json", R"({"images": [], "annotations": [], "categories": []})"}}},
      {"voc", "d", {{"d/Annotations/1.xml", "<annotation/>"}, {"d/JPEGImages/note.md", "x"}}},
      {"yolo", "d", {{"d/images/note.md", "x"}, {"d/labels/1.txt", "0 .5 .5 1 1\n"}, {"d/classes.txt", "a"}}},
      {"numpy", "d", {{"d/images.npy", npy_of_none("0, 2, 2")}, {"d/labels.npy", npy_of_none("0,")}}},
      {"text", "t.txt", {{"t.txt", ""}}},
      {"text", "t.txt", {{"t.txt", "shorter than a sequence"}}},
  };
}

/// Those that aren't recognized where nothing is in them: a pair of image and mask, a row, a record.
const std::set<std::string> kNeverEmpty = {"segmentation", "caffe_lmdb", "caffe_list"};

TEST(NothingToIngest, EverySourceSaysSo) {
  std::set<std::string> seen = kNeverEmpty;
  for (const Nothing& one : all_kinds()) {
    data::TempDir dir;
    for (const auto& [path, text] : one.files) write_text(dir / path, text);
    const std::string source = dir / one.given;
    SCOPED_TRACE(one.source + " " + one.files.front().first + " " + one.files.front().second.substr(0, 20));
    const auto found = data::find_source({source, ""});
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ((*found)->name, one.source);
    seen.insert(one.source);
    for (const bool is_split : {false, true}) {
      IngestOptions options = options_for(source, dir / "out");
      if (is_split) options.split = {0.9, 0.1};
      const auto report = ingest(options);
      ASSERT_FALSE(report.ok()) << "an empty dataset";
      EXPECT_NE(report.status().code(), ErrorCode::kInternal) << report.status().message();
      EXPECT_FALSE(data::is_there(dir / "out"));
      EXPECT_FALSE(data::is_there(dir / "out.partial"));
    }
  }
  for (const data::SourceRecord* record : data::source_table())
    EXPECT_TRUE(seen.contains(record->name)) << record->name << ": what does it say when it is empty?";
}

TEST(NothingToIngest, TheMessageSaysWhatWasThere) {
  data::TempDir dir;
  write_text(dir / "all.tar", tar_file("cat.tar", tar_file("note.txt", "no image") + tar_end()) + tar_end());
  const Status status = ingest(options_for(dir / "all.tar", dir / "out")).status();
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  expect_part(status.message(), "nothing to ingest in " + (dir / "all.tar"));
  expect_part(status.message(), "1 x .txt");
}

// Of a name with a zero byte files, folders and the list of skipped files would hold the part before it alone.
TEST(NothingToIngest, ANameWithAZeroByteIsRefused) {
  data::TempDir dir;
  write_text(dir / "a.jpg", jpeg_text(1, 8, 8));
  write_text(dir / "b.jpg", jpeg_text(2, 8, 8));
  const auto message = [&](const std::string& file, const std::string& text) {
    write_text(dir / file, text);
    IngestOptions options = options_for(dir / file, dir / "out");
    options.on_error = OnError::kSkip;
    return ingest(options).status().message();
  };
  expect_part(message("l.jsonl",
                      "{\"path\": \"a.jpg\\u0000 x\", \"label\": \"a\"}\n"
                      "{\"path\": \"b.jpg\", \"label\": \"b\"}\n"),
              "zero byte");
  const std::string pax = data::pax_record("path", std::string("cat/1\0.jpg", 10));
  expect_part(message("a.tar", data::tar_header("x", pax.size(), 'x') + data::padded(pax) +
                                   tar_file("cat/1.jpg", jpeg_text(1, 8, 8)) +
                                   tar_file("dog/1.jpg", jpeg_text(2, 8, 8)) + tar_end()),
              "zero byte");
}

// As a shard that lost its images stands among others that are whole.
TEST(NothingToIngest, SeveralSourcesWithNothingAreOneError) {
  data::TempDir dir;
  write_text(dir / "a.tar", tar_file("cat.tar", tar_end()) + tar_end());
  write_text(dir / "b.tar", tar_file("dog.tar", tar_end()) + tar_end());
  IngestOptions options = options_for(dir / "a.tar", dir / "out");
  options.sources.push_back(dir / "b.tar");
  options.split = {0.5, 0.5};
  EXPECT_EQ(ingest(options).status().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace dlpipe::ingest

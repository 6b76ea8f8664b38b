// Folders of images that the ingest tests share, and looks into what came of them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "dlpipe/codec.h"
#include "dlpipe/dataset.h"
#include "dlpipe/ingest.h"
#include "dlpipe/random.h"
#include "tests/io/data/codec/image_files.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::ingest {

using data::file_text;
using data::TempDir;
using data::write_text;

/// Says all of `text` where `part` isn't in it.
inline void expect_part(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A small JPEG, different for every number.
inline std::string jpeg_text(uint64_t number, int width, int height) {
  data::Pixels pixels(width, height, 3);
  RandomStream random(number, 1);
  const uint32_t base = random.below(150);
  for (size_t i = 0; i < pixels.bytes.size(); ++i)
    pixels.bytes[i] = static_cast<uint8_t>(base + i % 60 + random.below(20));
  return to_text(*data::encode_jpeg(pixels.view(), 85));
}

/// `count` JPEGs in the classes c0, c1, ...; every 37th file is corrupt. Sides are between 8 and `side`.
inline void write_images(const std::string& root, int count, int classes, int side) {
  RandomStream random(42, 0);
  for (int i = 0; i < count; ++i) {
    const int width = 8 + static_cast<int>(random.below(static_cast<uint32_t>(side - 7)));
    std::string text = jpeg_text(static_cast<uint64_t>(i), width, 8 + i % (side - 7));
    if (i % 37 == 5) text.resize(text.size() / 2);
    write_text(root + "/c" + std::to_string(i % classes) + "/" + std::to_string(1000 + i) + ".jpg", text);
  }
}

/// JPEGs stay the files that they are; other layouts have tests of their own.
inline IngestOptions options_for(const std::string& source, const std::string& destination) {
  IngestOptions options;
  options.sources = {source};
  options.destination = destination;
  options.jobs = 2;
  options.jpeg = JpegLayout::kStandard;
  return options;
}

/// Every file of a dataset or split directory but provenance.json and a publisher's note: name -> bytes.
inline std::map<std::string, std::string> dataset_files(const std::string& root) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (name == ".dlpipe-partial") continue;  // as a kill right after the last rename leaves it
    if (entry.is_regular_file() && name != "provenance.json")
      files[std::filesystem::relative(entry.path(), root).string()] = file_text(entry.path().string());
  }
  return files;
}

/// One record as a test compares it.
struct Sample {
  std::string path;
  std::string image;
  int64_t label = -1;
  data::RecordHeader header;
};

inline std::vector<Sample> samples_of(const std::string& directory, std::string_view split = {}) {
  auto dataset = value_or_throw(data::Dataset::open(directory, split));
  auto reader = value_or_throw(dataset->reader());
  std::vector<Sample> samples;
  for (int64_t i = 0; i < dataset->size(); ++i) {
    const auto record = value_or_throw(reader->record(i));
    const data::RecordView view = value_or_throw(data::parse_record(*dataset, record));
    samples.push_back(
        {to_text(view.fields[2]), to_text(view.image), view.label, value_or_throw(dataset->header(i))});
  }
  return samples;
}

}  // namespace dlpipe::ingest

// Folders where some JPEGs have no Huffman or quantisation tables of their own: what becomes of a file does
// not depend on the files that the same thread had before it.
#include "io/data/verify.h"
#include "tests/io/data/codec/jpeg_surgery.h"
#include "tests/io/data/codec/written_jpegs.h"
#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

/// Every third file is whole; every third has no Huffman tables, which are the standard's; every third has no
/// quantisation tables. Answers the last third's paths in order.
std::vector<std::string> write_mixed(const std::string& root, int count) {
  std::vector<std::string> damaged;
  for (int i = 0; i < count; ++i) {
    auto bytes =
        data::written({.width = 40 + i, .dc_quant = 2 + i % 7, .ac_quant = 3 + i % 11, .noise = false});
    if (i % 3 == 1) bytes = data::without_segments(bytes, data::kHuffmanTables);
    if (i % 3 == 2) bytes = data::without_segments(bytes, data::kQuantisationTables);
    const std::string path = "c" + std::to_string(i % 2) + "/" + std::to_string(1000 + i) + ".jpg";
    write_text(root + "/" + path, to_text(bytes));
    if (i % 3 == 2) damaged.push_back(path);
  }
  std::sort(damaged.begin(), damaged.end());
  return damaged;
}

class BareJpegs : public testing::TestWithParam<JpegLayout> {};

TEST_P(BareJpegs, GiveTheSameDatasetForAnyNumberOfJobs) {
  TempDir dir;
  const std::vector<std::string> damaged = write_mixed(dir / "src", 90);
  std::string first;
  for (const int jobs : {1, 2, 3}) {
    IngestOptions options = options_for(dir / "src", dir / ("dst" + std::to_string(jobs)));
    options.jpeg = GetParam();
    options.jobs = jobs;
    const IngestReport report = value_or_throw(ingest(options));
    std::vector<std::string> skipped;
    for (const auto& one : report.skipped) {
      skipped.push_back(one.path);
      EXPECT_NE(one.reason.find("Quantization table"), std::string::npos) << one.reason;
    }
    EXPECT_EQ(skipped, damaged) << jobs << " jobs";
    const auto dataset = value_or_throw(data::Dataset::open(options.destination));
    for (const int verifiers : {1, 3}) {
      const auto verified =
          value_or_throw(data::verify(*dataset, {.decode = true, .jobs = verifiers, .stop_requested = {}}));
      EXPECT_TRUE(verified.ok()) << verified.bad.size() << " bad";
    }
    const std::string file = file_text(options.destination + "/data.mdb");
    if (first.empty()) first = file;
    EXPECT_TRUE(file == first) << jobs << " jobs give another data.mdb";
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, BareJpegs,
                         testing::Values(JpegLayout::kAuto, JpegLayout::kStandard, JpegLayout::kRestart,
                                         JpegLayout::kCoefficients));

}  // namespace
}  // namespace dlpipe::ingest

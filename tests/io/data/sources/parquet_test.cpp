#include <gtest/gtest.h>

#include "dlpipe/source.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

TEST(ParquetSource, NamesTheProgramThatReadsIt) {
  TempDir dir;
  write_text(dir / "train.parquet", "PAR1");
  const auto source = open_source({dir / "train.parquet", ""});
  ASSERT_FALSE(source.ok());
  EXPECT_NE(source.status().message().find("python -m dlpipe ingest " + (dir / "train.parquet")),
            std::string::npos);
}

// As the Hugging Face hub gives them.
TEST(ParquetSource, NamesItForFoldersOfThemToo) {
  TempDir dir;
  write_text(dir / "hub/README.md", "---");
  write_text(dir / "hub/data/train-00000-of-00001.parquet", "PAR1");
  write_text(dir / "flat/dataset_info.json", "{}");
  write_text(dir / "flat/data-00000-of-00001.arrow", "ARROW1");
  write_text(dir / "splits/validation/0000.parquet", "PAR1");
  for (const std::string name : {"hub", "flat", "splits"}) {
    const auto source = open_source({dir / name, ""});
    ASSERT_FALSE(source.ok()) << name;
    EXPECT_NE(source.status().message().find("python -m dlpipe ingest " + (dir / name)), std::string::npos)
        << source.status().message();
  }
  write_text(dir / "images/data/1.jpg", "");
  write_text(dir / "beside/cat/1.jpg", "");
  write_text(dir / "beside/index.parquet", "PAR1");
  for (const std::string name : {"images", "beside"}) {
    const auto source = open_source({dir / name, ""});
    EXPECT_TRUE(source.ok()) << source.status().message();
  }
}

}  // namespace
}  // namespace dlpipe::data

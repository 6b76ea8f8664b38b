#include <gtest/gtest.h>

#include "dlpipe/io/data/sources/source.h"
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

}  // namespace
}  // namespace dlpipe::data

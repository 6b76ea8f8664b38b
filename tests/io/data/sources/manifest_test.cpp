#include <gtest/gtest.h>

#include "dlpipe/io/data/sources/source.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

class ManifestSource : public testing::Test {
 protected:
  ManifestSource() {
    for (const char* file : {"p/1.jpg", "p/2.jpg", "p/with, comma.jpg", "3.png"}) write_text(dir / file, "x");
  }
  Result<SourceListing> list(const std::string& text, const std::string& name = "list.csv") {
    write_text(dir / name, text);
    auto source = open_source({dir / name, ""});
    if (!source.ok()) return source.status();
    return (*source)->list();
  }
  std::string message(const std::string& text) { return list(text).status().message(); }
  TempDir dir;
};

TEST_F(ManifestSource, ReadsPathsAndLabels) {
  const SourceListing listing =
      value_or_throw(list("p/1.jpg,dog\r\n\n3.png , cat\n\"p/with, comma.jpg\",dog"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(listing.entries.size(), 3u);
  EXPECT_EQ(listing.entries[0].path, "p/1.jpg");
  EXPECT_EQ(listing.entries[0].label, 1);
  EXPECT_EQ(listing.entries[1].path, "3.png");
  EXPECT_EQ(listing.entries[2].path, "p/with, comma.jpg");
  EXPECT_TRUE(listing.extra_fields.empty());
}

TEST_F(ManifestSource, AHeaderNamesFurtherColumns) {
  const SourceListing listing =
      value_or_throw(list("path\tlabel\tcamera\n3.png\t10\tA \"b\"\np/1.jpg\t9\t\"x\"\"\ty\"\n", "list.tsv"));
  EXPECT_EQ(listing.extra_fields, std::vector<std::string>{"camera"});
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"9", "10"})) << "numbers are sorted as numbers";
  EXPECT_EQ(listing.entries[0].extra, std::vector<std::string>{"A \"b\""});
  EXPECT_EQ(listing.entries[1].extra, std::vector<std::string>{"x\"\ty"});
  EXPECT_EQ(value_or_throw(list("3.png,1,a,b\n")).extra_fields,
            (std::vector<std::string>{"column3", "column4"}));
}

TEST_F(ManifestSource, StandsBesideAFolder) {
  TempDir elsewhere;
  write_text(elsewhere / "labels.txt", "\xef\xbb\xbfp/1.jpg,a\np/2.jpg,b\n");
  auto source = value_or_throw(open_source({dir.path(), elsewhere / "labels.txt"}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(value_or_throw(source->read(listing.entries[0])).size(), 1u);
}

TEST_F(ManifestSource, MistakesAreNamedWithTheirLine) {
  EXPECT_NE(message("3.png,a\np/1.jpg,b\n3.png,b\n").find("line 3: 3.png was listed on line 1 already"),
            std::string::npos);
  EXPECT_NE(message("3.png,a\np/1.jpg\n").find("line 2: 1 columns, the first line has 2"), std::string::npos);
  EXPECT_NE(message("3.png\n").find("line 1: no label"), std::string::npos);
  EXPECT_NE(message("3.png,a\n,b\n").find("line 2: an empty path"), std::string::npos);
  EXPECT_NE(message("3.png,a\np/none.jpg,b\n").find("line 2: "), std::string::npos);
  EXPECT_NE(message("3.png,a\n\"p/1.jpg,b\n").find("line 2: a quote is never closed"), std::string::npos);
  EXPECT_NE(message("/etc/passwd,a\n").find("leads out of"), std::string::npos);
  EXPECT_NE(message("p/../../x,a\n").find("leads out of"), std::string::npos);
  EXPECT_NE(message("p,a\n").find("not a regular file"), std::string::npos);
  EXPECT_NE(message("path,label\n").find("lists no file"), std::string::npos);
  EXPECT_NE(message("").find("lists no file"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::data

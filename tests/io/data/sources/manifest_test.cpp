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
  EXPECT_NE(message("3.png,a\n./3.png,b\n").find("line 2: ./3.png was listed on line 1 already"),
            std::string::npos);
  EXPECT_NE(message("3.png,a\np/1.jpg\n").find("line 2: 1 columns, the first line has 2"), std::string::npos);
  EXPECT_NE(message("3.png\n").find("line 1: no label"), std::string::npos);
  EXPECT_NE(message("3.png;a\n").find("with commas instead of ';'"), std::string::npos);
  EXPECT_NE(message("3.png,a\n,b\n").find("line 2: an empty path"), std::string::npos);
  EXPECT_NE(message("3.png,a\n\"p/1.jpg,b\n").find("line 2: a quote is never closed"), std::string::npos);
  EXPECT_NE(message("3.png,a\n\"p/1.jpg\"x,b\n").find("line 2: text behind a closing quote"),
            std::string::npos);
  EXPECT_NE(message("p/../../x,a\n").find("leads out of"), std::string::npos);
  EXPECT_NE(message("path,label\n").find("lists no file"), std::string::npos);
  EXPECT_NE(message("").find("lists no file"), std::string::npos);
  EXPECT_NE(message(std::string("3.png,a\0\n", 9)).find("holds zero bytes"), std::string::npos);
  EXPECT_NE(message("\xff\xfe,").find("is UTF-16; save it as UTF-8"), std::string::npos);
}

TEST_F(ManifestSource, AFileThatCannotBeReadIsOneEntryWithAProblem) {
  const SourceListing listing =
      value_or_throw(list("3.png,a\np/none.jpg,b\np,c\np\\1.jpg,a\n/etc/none.jpg,a\n"));
  ASSERT_EQ(listing.entries.size(), 5u);
  EXPECT_EQ(listing.entries[0].problem, "");
  EXPECT_NE(listing.entries[1].problem.find("line 2: there is no file " + dir.path() + "/p/none.jpg"),
            std::string::npos)
      << listing.entries[1].problem;
  EXPECT_NE(listing.entries[2].problem.find("line 3: "), std::string::npos);
  EXPECT_NE(listing.entries[2].problem.find("not a regular file"), std::string::npos)
      << listing.entries[2].problem;
  EXPECT_NE(listing.entries[3].problem.find("write / between folders"), std::string::npos);
  EXPECT_NE(listing.entries[4].problem.find("there is no file /etc/none.jpg"), std::string::npos);
  std::string all;
  for (const std::string& warning : listing.warnings) all += warning + "\n";
  EXPECT_NE(all.find("class 'b' has no picture"), std::string::npos) << all;
}

TEST_F(ManifestSource, AbsolutePathsAreTakenAndNamedBelowTheFolder) {
  TempDir elsewhere;
  write_text(elsewhere / "4.jpg", "four");
  write_text(dir / "list.csv", dir / "p/1.jpg" + ",a\n" + (elsewhere / "4.jpg") + ",b\n");
  auto source = value_or_throw(open_source({dir / "list.csv", ""}));
  const SourceListing listing = value_or_throw(source->list());
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].name(), "p/1.jpg") << "below the list's folder";
  EXPECT_EQ(listing.entries[1].name(), (elsewhere / "4.jpg").substr(1)) << "elsewhere, but no absolute name";
  EXPECT_EQ(value_or_throw(source->read(listing.entries[1])).size(), 4u);
  EXPECT_NE(message("p/1.jpg,a\n" + (dir / "p/1.jpg") + ",a\n").find("was listed on line 1 already"),
            std::string::npos);
}

TEST_F(ManifestSource, AFirstLineMayNameTheColumnsInAnyOrder) {
  const SourceListing listing =
      value_or_throw(list("ID,Class,camera,,Filename\n7,dog,left,x,3.png\n8,cat,right,y,p/1.jpg\n"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(listing.entries[0].path, "3.png");
  EXPECT_EQ(listing.extra_fields, (std::vector<std::string>{"ID", "camera"}));
  EXPECT_EQ(listing.entries[1].extra, (std::vector<std::string>{"8", "right"}));
  ASSERT_EQ(listing.warnings.size(), 1u);
  EXPECT_NE(listing.warnings[0].find("column 4 of"), std::string::npos) << listing.warnings[0];
  EXPECT_EQ(value_or_throw(list("3.png,image\np/1.jpg,file\n")).entries.size(), 2u)
      << "classes of these names";
  EXPECT_NE(message("id,breed\n3.png,a\n").find("'id' is no file; if this line names the columns"),
            std::string::npos);
  EXPECT_NE(message("path,split\n3.png,train\n").find("no column of labels"), std::string::npos);
}

TEST_F(ManifestSource, BlanksBlankLinesAndLineEndsAreNoCells) {
  const SourceListing listing = value_or_throw(
      list("\xef\xbb\xbfpath , label\r\n  \t \r\n ,\r\n \"p/with, comma.jpg\" , \"a\"\"b\"\r\n\r\n3.png,c"));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].path, "p/with, comma.jpg");
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a\"b", "c"}));
  EXPECT_EQ(value_or_throw(list("3.png\ta\np/1.jpg\tb, c\n", "list.csv")).classes,
            (std::vector<std::string>{"a", "b, c"}))
      << "tabs, whatever the list's name";
  EXPECT_EQ(value_or_throw(list("3.png,a\rp/1.jpg,b\r")).entries.size(), 2u) << "lines of old Macs";
}

TEST_F(ManifestSource, AColumnOfSplitsMakesSplits) {
  const std::string text = "path,split,label\n3.png,Train,a\np/1.jpg,valid,b\np/2.jpg,TEST,a\n";
  const SourceListing listing = value_or_throw(list(text));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(listing.entries[0].split, "train");
  EXPECT_EQ(listing.entries[1].split, "val");
  EXPECT_EQ(listing.entries[2].split, "test");
  EXPECT_TRUE(listing.extra_fields.empty());
  EXPECT_NE(message("path,label,split\n3.png,a,holdout\n").find("line 2: the split 'holdout' is none of"),
            std::string::npos);
  auto literal = value_or_throw(open_source({.path = dir / "list.csv", .splits = false}));
  write_text(dir / "list.csv", text);
  const SourceListing plain = value_or_throw(literal->list());
  EXPECT_EQ(plain.extra_fields, std::vector<std::string>{"split"});
  EXPECT_EQ(plain.entries[0].split, "");
  const SourceListing unnamed = value_or_throw(list("3.png,a,train\np/1.jpg,b,val\n"));
  ASSERT_EQ(unnamed.warnings.size(), 1u);
  EXPECT_NE(unnamed.warnings[0].find("'column3' holds names of splits"), std::string::npos)
      << unnamed.warnings[0];
}

TEST_F(ManifestSource, WhatIsNoClassIsRefusedByName) {
  EXPECT_NE(message("3.png,a\np/1.jpg,cat|dog\n").find("line 2: the label 'cat|dog' names several classes"),
            std::string::npos);
  EXPECT_NE(message("path,label\n3.png,1\np/1.jpg,0.25\n").find("line 3: the label '0.25' is a number"),
            std::string::npos);
  EXPECT_NE(message("3.png,nan\np/1.jpg,2\n").find("'nan' is a number, but no whole one"), std::string::npos);
  EXPECT_TRUE(list("3.png,1.5T\np/1.jpg,2.0T\n").ok()) << "names may hold numbers";
  EXPECT_NE(message("path,cat,dog\n3.png,1,0\np/1.jpg,0,1\n").find("as if each were a class"),
            std::string::npos);
  EXPECT_TRUE(list("path,label,blurred\n3.png,1,0\np/1.jpg,0,1\n").ok()) << "the label is named";
}

}  // namespace
}  // namespace dlpipe::data

#include <gtest/gtest.h>

#include "dlpipe/source.h"
#include "io/data/sources/classes.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/sources/manifest_fixture.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

TEST_F(ManifestTest, ReadsPathsAndLabels) {
  const SourceListing listing =
      value_or_throw(list("p/1.jpg,dog\r\n\n3.png , cat\n\"p/with, comma.jpg\",dog"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(listing.entries.size(), 3u);
  EXPECT_EQ(listing.entries[0].path, "p/1.jpg");
  EXPECT_EQ(listing.entries[0].label, 1);
  EXPECT_EQ(listing.entries[1].path, "3.png");
  EXPECT_EQ(listing.entries[2].path, "p/with, comma.jpg");
  EXPECT_TRUE(listing.fields.empty());
}

TEST_F(ManifestTest, AClassThatIsNoNameIsRefusedByItsLineInAShortMessage) {
  const std::string longest(kMostClassNameBytes, 'a');
  EXPECT_EQ(value_or_throw(list("p/1.jpg," + longest + "\n3.png,b\n")).classes,
            (std::vector<std::string>{longest, "b"}));
  const Status status = list("p/1.jpg,b\n3.png," + std::string(2'000'000, 'a') + "\n").status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("line 2"), std::string::npos) << status.message();
  EXPECT_LT(status.message().size(), 1500u);
}

TEST(ClassNames, OneThatIsTooLongIsRefusedWithAnEntryOfIt) {
  SourceListing listing;
  listing.classes = {"a", std::string(kMostClassNameBytes, 'b')};
  listing.entries.resize(2);
  listing.entries[1].path = "b/1.jpg";
  listing.entries[1].label = 1;
  EXPECT_TRUE(check_class_names(listing, "SRC").ok());
  listing.classes[1] += 'b';
  const Status status = check_class_names(listing, "SRC");
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_NE(status.message().find("b/1.jpg"), std::string::npos) << status.message();
  EXPECT_LT(status.message().size(), 1000u);
}

TEST_F(ManifestTest, AHeaderNamesFurtherColumns) {
  const SourceListing listing =
      value_or_throw(list("path\tlabel\tcamera\n3.png\t10\tA \"b\"\np/1.jpg\t9\t\"x\"\"\ty\"\n", "list.tsv"));
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"camera"});
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"9", "10"})) << "numbers are sorted as numbers";
  EXPECT_EQ(listing.entries[0].extra, std::vector<std::string>{"A \"b\""});
  EXPECT_EQ(listing.entries[1].extra, std::vector<std::string>{"x\"\ty"});
  EXPECT_EQ(field_names(value_or_throw(list("3.png,1,a,b\n"))),
            (std::vector<std::string>{"column3", "column4"}));
}

// images/ beside labels.csv, train/ and test/ beside train.csv: bare names, or ids without an ending.
TEST_F(ManifestTest, FindsItsFilesInAFolderBesideIt) {
  for (const char* file : {"all/images/a.jpg", "all/images/b.png", "all/.hidden/a.jpg", "two/train/a.jpg",
                           "two/train/b.png", "two/test/a.jpg", "two/test/b.png"})
    write_text(dir / file, "x");
  for (const char* name : {"all/labels.csv", "two/train.csv", "two/Train_labels.csv"}) {
    write_text(dir / name, "id,label\na,cat\nb,dog\n");
    auto source = value_or_throw(open_source({dir / name, ""}));
    const SourceListing listing = value_or_throw(source->list());
    ASSERT_EQ(listing.entries.size(), 2u) << name;
    EXPECT_EQ(listing.entries[1].path, "b.png") << name;
    EXPECT_EQ(listing.entries[1].problem, "") << name;
    EXPECT_EQ(value_or_throw(source->read(listing.entries[1])).size(), 1u) << name;
    EXPECT_NE(listing.warnings.at(0).find(": its files are below "), std::string::npos)
        << listing.warnings[0];
  }
  write_text(dir / "two/labels.csv", "a.jpg,cat\nb.png,dog\n");
  SourceOptions options = {dir / "two/labels.csv", ""};
  const SourceListing lost = value_or_throw(value_or_throw(open_source(options))->list());
  EXPECT_NE(lost.entries[0].problem, "");
  EXPECT_NE(
      lost.warnings.at(0).find("nor in exactly one of the folders there; give their folder with --images"),
      std::string::npos)
      << lost.warnings[0];
  options.images = dir / "two/test";
  EXPECT_EQ(value_or_throw(value_or_throw(open_source(options))->list()).entries[0].problem, "");
}

TEST_F(ManifestTest, PathsOfAnotherMachineAreFoundByTheirLastNames) {
  for (const char* file : {"z/images/000.jpg", "z/images/001.jpg"}) write_text(dir / file, "x");
  const auto list_of = [&](const std::string& lines, const std::string& images) {
    write_text(dir / "z/p.csv", concat("image,label\n", lines));
    SourceOptions options = {dir / "z/p.csv", ""};
    options.images = images;
    return value_or_throw(value_or_throw(open_source(options))->list());
  };
  const std::string lines = "/data/upload/1/000.jpg,cat\nC:\\upload\\2\\001.jpg,dog\n";
  for (const std::string& images : {dir / "z/images", dir / "z", std::string()}) {
    const SourceListing listing = list_of(lines, images);
    ASSERT_EQ(listing.entries.size(), 2u);
    EXPECT_EQ(listing.entries[0].problem, "") << images;
    EXPECT_EQ(listing.entries[1].problem, "") << images;
    EXPECT_EQ(listing.entries[1].name(), "001.jpg");
    EXPECT_NE(listing.warnings.at(0).find("found by the last names of its paths"), std::string::npos)
        << listing.warnings[0];
  }
  // Two of one last name would be the same file.
  EXPECT_NE(list_of("/data/1/000.jpg,cat\n/data/2/000.jpg,dog\n", dir / "z/images").entries[0].problem, "");
}

TEST_F(ManifestTest, FindsItsFilesInSeveralFoldersBesideIt) {
  std::string lines = "image_id,dx,age\n";
  for (int i = 0; i < 100; ++i) {
    const std::string id = std::to_string(100 + i);
    write_text(dir / ((i < 60 ? "d/part_1/" : "d/part_2/images/") + id + ".jpg"), "x");
    lines += id + (i % 2 == 0 ? ",nv,5\n" : ",mel,5\n");
  }
  write_text(dir / "d/metadata.csv", lines);
  write_text(dir / "d/other/notes.jpg", "x");
  SourceOptions options;
  options.path = dir / "d/metadata.csv";
  options.label = "dx";
  auto source = value_or_throw(open_source(options));
  SourceListing listing = value_or_throw(source->list());
  ASSERT_EQ(listing.entries.size(), 100u);
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"mel", "nv"}));
  for (const SourceEntry& entry : listing.entries) {
    EXPECT_EQ(entry.problem, "");
    EXPECT_EQ(value_or_throw(source->read(entry)).size(), 1u);
    EXPECT_EQ(entry.name().size(), 7u) << entry.name();
  }
  EXPECT_EQ(listing.entries[99].path, "part_2/images/199.jpg");
  EXPECT_NE(listing.warnings.at(0).find("d, in 'part_1', 'part_2/images'"), std::string::npos)
      << listing.warnings[0];
  // One that is in both is nobody's.
  write_text(dir / "d/part_2/images/101.jpg", "y");
  source = value_or_throw(open_source(options));
  listing = value_or_throw(source->list());
  EXPECT_NE(listing.entries[1].problem.find("101, and it is not in exactly one of the folders there"),
            std::string::npos)
      << listing.entries[1].problem;
  EXPECT_EQ(listing.entries[2].problem, "");
}

TEST_F(ManifestTest, ANameInTwoFoldersCostsThatImageAlone) {
  std::string lines = "image_id,dx\n";
  for (int i = 0; i < 12; ++i) {
    write_text(dir / concat("d/", i < 6 ? "part_1/" : "part_2/", i, ".png"), "x");
    lines += concat(i, ",c", i % 2, "\n");
  }
  write_text(dir / "d/part_2/0.png", "y");
  write_text(dir / "d/metadata.csv", lines);
  const auto source = value_or_throw(open_source({.path = dir / "d/metadata.csv", .label = "dx"}));
  const SourceListing listing = value_or_throw(source->list());
  ASSERT_EQ(listing.entries.size(), 12u);
  EXPECT_NE(listing.entries[0].problem.find("0, and it is not in exactly one"), std::string::npos);
  for (size_t i = 1; i < 12; ++i) EXPECT_EQ(listing.entries[i].problem, "") << i;
}

TEST_F(ManifestTest, AnIdOfTwoImagesIsAProblem) {
  write_text(dir / "p/1.png", "y");
  const SourceListing listing = value_or_throw(list("id,label\np/1,cat\np/2,dog\n"));
  EXPECT_NE(listing.entries[0].problem.find("line 2: 'p/1' may be any of '1.jpg', '1.png'; write its ending"),
            std::string::npos)
      << listing.entries[0].problem;
  EXPECT_EQ(listing.entries[1].problem, "");
}

TEST_F(ManifestTest, StandsBesideAFolder) {
  TempDir elsewhere;
  write_text(elsewhere / "labels.txt", "\xef\xbb\xbfp/1.jpg,a\np/2.jpg,b\n");
  auto source = value_or_throw(open_source({dir.path(), elsewhere / "labels.txt"}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(value_or_throw(source->read(listing.entries[0])).size(), 1u);
}

TEST_F(ManifestTest, MistakesAreNamedWithTheirLine) {
  EXPECT_NE(message("3.png,a\np/1.jpg,b\n3.png,b\n").find("line 3: 3.png is already listed on line 1"),
            std::string::npos);
  EXPECT_NE(message("3.png,a\n./3.png,b\n").find("line 2: ./3.png is already listed on line 1"),
            std::string::npos);
  EXPECT_NE(message("3.png,a\np/1.jpg\n").find("line 2: 1 column, but the first line has 2"),
            std::string::npos);
  EXPECT_NE(message("3.png\n").find("line 1: there is no label"), std::string::npos);
  EXPECT_NE(message("3.png,a\n,b\n").find("line 2: the path is empty"), std::string::npos);
  EXPECT_NE(message("3.png,a\n\"p/1.jpg,b\n").find("line 2: a quote is never closed"), std::string::npos);
  EXPECT_NE(message("3.png,a\n\"p/1.jpg\"x,b\n").find("line 2: text after a closing quote"),
            std::string::npos);
  EXPECT_NE(message("p/../../x,a\n").find("leads outside of"), std::string::npos);
  EXPECT_NE(message("path,label\n").find("lists no file"), std::string::npos);
  EXPECT_NE(message("").find("lists no file"), std::string::npos);
  EXPECT_NE(message(std::string("3.png,a\0\n", 9)).find("holds zero bytes"), std::string::npos);
  EXPECT_NE(message("\xff\xfe,").find("is UTF-16; save it as UTF-8"), std::string::npos);
  EXPECT_NE(message(std::string("p\0,\0a\0\n\0", 8)).find("is UTF-16; save it as UTF-8"), std::string::npos);
}

// As spreadsheets write lists where a comma stands in numbers.
TEST_F(ManifestTest, SemicolonsDivideCellsWhereCommasDoNot) {
  for (const auto& [text, name] : std::vector<std::pair<std::string, std::string>>{
           {"3.png;b\np/1.jpg;a\n", "list.csv"},
           {"path;label\n3.png;b\np/1.jpg;a\n", "list.csv"},
           {"path;label;a, b\n3.png;b;1\np/1.jpg;a;2\n", "list.csv"},
           {"3.png;2\np/1.jpg;1\n", "list.txt"}}) {
    const SourceListing listing = value_or_throw(list(text, name));
    ASSERT_EQ(listing.entries.size(), 2u) << text;
    EXPECT_EQ(listing.entries[0].path, "3.png");
    EXPECT_EQ(listing.classes.size(), 2u);
    EXPECT_EQ(listing.entries[0].label, 1);
    EXPECT_EQ(listing.entries[1].label, 0);
  }
}

TEST_F(ManifestTest, AnEmptyLabelIsOneEntryWithAProblem) {
  const SourceListing listing = value_or_throw(list("path,label\n3.png,a\np/1.jpg,\np/2.jpg,b\n"));
  ASSERT_EQ(listing.entries.size(), 3u);
  EXPECT_EQ(listing.entries[0].problem, "");
  EXPECT_NE(listing.entries[1].problem.find("line 3: its label is empty; write its class"), std::string::npos)
      << listing.entries[1].problem;
  EXPECT_EQ(listing.entries[1].label, -1);
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b"}));
}

TEST_F(ManifestTest, WhereNoFileIsThereTheClassesAreNotNamedOneByOne) {
  for (const char* text : {"none/1.jpg,a\nnone/2.jpg,b\n", "path,label\n3.png,\np/1.jpg,\n"}) {
    const SourceListing listing = value_or_throw(list(text));
    for (const std::string& warning : listing.warnings)
      EXPECT_EQ(warning.find("has no image"), std::string::npos) << warning;
  }
}

TEST_F(ManifestTest, AFileThatCannotBeReadIsOneEntryWithAProblem) {
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
  const std::string all = warnings_of(listing);
  EXPECT_NE(all.find("class 'b' has no image"), std::string::npos) << all;
}

TEST_F(ManifestTest, IdsAreNamesWithoutAnEnding) {
  SourceListing listing = value_or_throw(list("\xef\xbb\xbfid,breed\r\n3,cat\r\np/1,dog\r\n"));
  EXPECT_EQ(listing.entries[0].path, "3.png");
  EXPECT_EQ(listing.entries[1].path, "p/1.jpg");
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  listing = value_or_throw(list("id,path,label\n7,3.png,cat\n8,p/none,dog\n"));  // a path is a path
  EXPECT_EQ(listing.entries[0].path, "3.png");
  EXPECT_NE(listing.entries[1].problem.find("there is no file"), std::string::npos);
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"id"});
}

TEST_F(ManifestTest, IdsFindImagesWhateverTheCaseOfTheirEnding) {
  for (const char* name : {"n1/one.JPEG", "n1/two.JPG", "n1/three.PNG"}) write_text(dir / name, "x");
  const SourceListing listing =
      value_or_throw(list("image_id,label\none,cat\ntwo,dog\nthree,cat\n"));  // found in n1/, too
  EXPECT_EQ(listing.entries[0].path, "one.JPEG");
  EXPECT_EQ(listing.entries[1].path, "two.JPG");
  EXPECT_EQ(listing.entries[2].path, "three.PNG");
  for (const SourceEntry& entry : listing.entries) EXPECT_EQ(entry.problem, "");
}

TEST_F(ManifestTest, ALabelThatIsNoValueIsAMissingOne) {
  const SourceListing listing = value_or_throw(list("path,label\n3.png,cat\np/1.jpg,nan\n"));
  EXPECT_EQ(listing.classes, std::vector<std::string>{"cat"});
  EXPECT_EQ(listing.entries[1].label, -1);
  EXPECT_NE(listing.entries[1].problem.find("line 3: its label is 'nan'"), std::string::npos)
      << listing.entries[1].problem;
}

TEST_F(ManifestTest, TagsThatAreNoValueAreNoTags) {
  write_text(dir / "list.csv", "path,tags\n3.png,a|b\np/1.jpg,nan\np/2.jpg,\n");
  const auto source = value_or_throw(open_source({.path = dir / "list.csv", .fields = {"tags:labels"}}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"a", "b"}));
  for (size_t i : {1, 2}) {
    EXPECT_EQ(listing.entries[i].problem, "");
    EXPECT_EQ(listing.entries[i].extra[0], "");
  }
}

TEST_F(ManifestTest, TheAdviceForAnUnknownColumnSuitsItsCells) {
  EXPECT_NE(message("id,findings,age\n3,Mass|Effusion,5\np/1,No Finding,6\n").find("--field findings:labels"),
            std::string::npos);
  EXPECT_NE(message("id,height,age\n3,1.5,5\np/1,2,6\n").find("--field height:number"), std::string::npos);
  EXPECT_NE(message("id,remark,age\n3,good,5\np/1,bad,6\n").find("--field remark:text"), std::string::npos);
}

TEST_F(ManifestTest, PixelsInCellsAreRefusedAsSuch) {
  std::string numbers = "5";
  for (int i = 0; i < 784; ++i) numbers += ",0";
  for (const std::string& text :
       {std::string("label,pixel0,pixel1\n5,0,0\n"),
        std::string("emotion,pixels,Usage\n0,70 80 82,Training\n"), numbers + "\n"}) {
    EXPECT_NE(message(text).find(
                  "line 1: its cells are pixels, which can't be read from lists; store them as an .npz"),
              std::string::npos)
        << message(text);
  }
}

TEST_F(ManifestTest, AbsolutePathsAreTakenAndNamedBelowTheFolder) {
  TempDir elsewhere;
  write_text(elsewhere / "4.jpg", "four");
  write_text(dir / "list.csv", dir / "p/1.jpg" + ",a\n" + (elsewhere / "4.jpg") + ",b\n");
  auto source = value_or_throw(open_source({dir / "list.csv", ""}));
  const SourceListing listing = value_or_throw(source->list());
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].name(), "p/1.jpg") << "below the list's folder";
  EXPECT_EQ(listing.entries[1].name(), (elsewhere / "4.jpg").substr(1)) << "elsewhere, but no absolute name";
  EXPECT_EQ(value_or_throw(source->read(listing.entries[1])).size(), 4u);
  EXPECT_NE(message("p/1.jpg,a\n" + (dir / "p/1.jpg") + ",a\n").find("is already listed on line 1"),
            std::string::npos);
}

TEST_F(ManifestTest, BlanksBlankLinesAndLineEndsAreNoCells) {
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

}  // namespace
}  // namespace dlpipe::data

#include "io/data/sources/inputs/inputs.h"

#include <gtest/gtest.h>

#include "io/data/sources/bytes/scratch_file.h"
#include "tests/io/data/sources/tar_writing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

using Names = std::vector<std::string>;

Result<SourceInputs> expand(const std::vector<std::string>& given, const std::string& list = {}) {
  return expand_inputs(given, list, true);
}

std::string message(const std::vector<std::string>& given, const std::string& list = {}) {
  return expand(given, list).status().message();
}

TEST(Inputs, BracesStandForEachName) {
  EXPECT_EQ(value_or_throw(expand_braces("s-{08..11}.tar")),
            (Names{"s-08.tar", "s-09.tar", "s-10.tar", "s-11.tar"}));
  EXPECT_EQ(value_or_throw(expand_braces("{2..0}")), (Names{"2", "1", "0"}));
  EXPECT_EQ(value_or_throw(expand_braces("{a,b}/{0..1}.tar")),
            (Names{"a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar"}));
  EXPECT_EQ(value_or_throw(expand_braces("{x}-{..}-{1..b}")), (Names{"{x}-{..}-{1..b}"}));
  EXPECT_EQ(value_or_throw(expand_braces("a{b")), (Names{"a{b"}));
  EXPECT_EQ(value_or_throw(expand_braces("")), (Names{""}));
  EXPECT_FALSE(expand_braces("{0..9999999999}").ok());
  EXPECT_FALSE(expand_braces("{0..9999}{0..9999}").ok());
}

TEST(Inputs, WhatMatchesNothingIsNamed) {
  TempDir dir;
  write_text(dir / "s-0.tar", tar_end());
  EXPECT_NE(message({dir / "s-{0..1}.tar"}).find("s-1.tar, of "), std::string::npos)
      << message({dir / "s-{0..1}.tar"});
  EXPECT_NE(message({dir / "*.gz"}).find("no file or folder"), std::string::npos);
  EXPECT_NE(message({"s3://bucket/*.tar"}).find("can't be listed; name the files"), std::string::npos);
  EXPECT_NE(message({dir / "s-0.tar", dir / "*.tar"}).find("given twice"), std::string::npos);
  EXPECT_NE(message({"-", "-"}).find("one standard input"), std::string::npos);
}

TEST(Inputs, AListHoldsPathsBelowItsOwnFolder) {
  TempDir dir;
  write_text(dir / "sub/a.tar", tar_end());
  write_text(dir / "b.tar", tar_end());
  write_text(dir / "list.txt", "\xef\xbb\xbfsub/a.tar\n\n  " + (dir / "b.tar") + "\r\n");
  const SourceInputs inputs = value_or_throw(expand({}, dir / "list.txt"));
  ASSERT_EQ(inputs.inputs.size(), 2u);
  EXPECT_EQ(inputs.inputs[0].path, dir / "sub/a.tar");
  EXPECT_EQ(inputs.inputs[1].path, dir / "b.tar");
  write_text(dir / "empty.txt", "\n");
  EXPECT_NE(message({}, dir / "empty.txt").find("is empty"), std::string::npos);
  EXPECT_NE(message({}, dir / "none.txt").find("none.txt"), std::string::npos);
}

TEST(Inputs, AFolderOfArchivesIsTheArchivesAndOneWithBothIsRefused) {
  TempDir dir;
  write_text(dir / "s/b.tar", tar_end());
  write_text(dir / "s/a.tar.gz", "");
  write_text(dir / "s/.hidden.tar", "");
  write_text(dir / "s/sizes.json", "{}");
  const SourceInputs inputs = value_or_throw(expand({dir / "s"}));
  ASSERT_EQ(inputs.inputs.size(), 2u);
  EXPECT_EQ(inputs.inputs[0].path, dir / "s/a.tar.gz");
  write_text(dir / "s/cats/1.jpg", "");
  const std::string text = message({dir / "s"});
  EXPECT_NE(text.find("both the archives 'a.tar.gz', 'b.tar' and the folders 'cats'"), std::string::npos)
      << text;
  write_text(dir / "p/b.tar", tar_end());
  write_text(dir / "p/1.jpg", "");
  EXPECT_NE(message({dir / "p"}).find("1 image"), std::string::npos);
}

TEST(Inputs, AnArchiveOfAFolderThatIsALinkToNothingIsNoFewerArchive) {
  TempDir dir;
  write_text(dir / "s/a.tar", tar_file("cat/1.jpg", "x") + tar_file("dog/1.jpg", "x") + tar_end());
  std::filesystem::create_symlink("gone.tar", dir / "s/b.tar");
  const SourceInputs inputs = value_or_throw(expand({dir / "s"}));
  ASSERT_EQ(inputs.inputs.size(), 2u);
  EXPECT_EQ(inputs.inputs[1].path, dir / "s/b.tar");
  const std::vector<std::string> given = {dir / "s"};
  EXPECT_NE(open_sources(given, "", {}).status().message().find("s/b.tar is a broken link"),
            std::string::npos)
      << open_sources(given, "", {}).status().message();
}

TEST(Inputs, SplitsComeFromFoldersOrNamesOfArchives) {
  TempDir dir;
  write_text(dir / "f/train/0.tar", tar_end());
  write_text(dir / "f/validation/0.tar", tar_end());
  SourceInputs inputs = value_or_throw(expand({dir / "f"}));
  ASSERT_EQ(inputs.inputs.size(), 2u);
  EXPECT_EQ(inputs.inputs[0].split, "train");
  EXPECT_EQ(inputs.inputs[1].split, "val");
  for (const char* name : {"in-train-000.tar", "in-train-001.tar", "in_val_000.tar"})
    write_text(dir / (std::string("n/") + name), tar_end());
  inputs = value_or_throw(expand({dir / "n"}));
  ASSERT_EQ(inputs.inputs.size(), 3u);
  EXPECT_EQ(inputs.inputs[1].split, "train");
  EXPECT_EQ(inputs.inputs[2].split, "val");
  ASSERT_EQ(inputs.notes.size(), 1u);
  EXPECT_NE(inputs.notes[0].find("2 archives of train, 1 archive of val"), std::string::npos)
      << inputs.notes[0];
  write_text(dir / "n/more.tar", tar_end());
  inputs = value_or_throw(expand({dir / "n"}));
  for (const SourceInput& input : inputs.inputs) EXPECT_EQ(input.split, "");
  ASSERT_EQ(inputs.notes.size(), 1u);
  EXPECT_NE(inputs.notes[0].find(
                "all inputs become one dataset: some are named like the splits 'train', 'val', but "),
            std::string::npos)
      << inputs.notes[0];
  EXPECT_NE(inputs.notes[0].find("n/more.tar"), std::string::npos) << inputs.notes[0];
}

TEST(Inputs, SplitsComeFromTheFoldersThatListsLieIn) {
  TempDir dir;
  for (const char* split : {"train", "validation"}) {
    const std::string folder = dir / split;
    write_text(folder + "/fields.jsonl",
               "{\"fields\": [], \"classes\": [\"b\", \"a\"]}\n"
               "{\"path\": \"1.jpg\", \"label\": \"a\"}\n"
               "{\"path\": \"2.jpg\", \"label\": \"b\"}\n");
    write_text(folder + "/1.jpg", split);
    write_text(folder + "/2.jpg", split);
  }
  const std::vector<std::string> given = {dir / "train/fields.jsonl", dir / "validation/fields.jsonl"};
  auto source = value_or_throw(open_sources(given, "", {}));
  const SourceListing listing = value_or_throw(source->list());
  ASSERT_EQ(listing.entries.size(), 4u);
  EXPECT_EQ(listing.entries[1].split, "train");
  EXPECT_EQ(listing.entries[2].split, "val");
  for (const SourceEntry& entry : listing.entries) {
    EXPECT_EQ(entry.name().size(), 5u) << entry.name() << ": as of a split's folder";
    EXPECT_FALSE(value_or_throw(source->read(entry)).empty());
  }
  EXPECT_EQ(listing.classes, (Names{"b", "a"}));
  EXPECT_EQ(listing.warnings,
            (Names{"[ingest] the folders of the files determine the splits: 1 file of train, 1 file of val; "
                   "--no-splits makes one dataset",
                   "[ingest] all 2 inputs list the 2 classes in the same order, which is kept"}));
  SourceOptions whole;
  whole.splits = false;
  for (const SourceEntry& entry :
       value_or_throw(value_or_throw(open_sources(given, "", whole))->list()).entries)
    EXPECT_EQ(entry.split, "");
}

TEST(Inputs, FilesAndFoldersOfEveryKindTellTheirSplit) {
  TempDir dir;
  for (const char* name : {"train/cat/1.jpg", "val/cat/1.jpg", "train_labels.csv", "val_labels.csv",
                           "a/train.json", "a/test.json", "train/shapes/1/1.jpg", "val/shapes/1/1.jpg"})
    write_text(dir / name, "path,label\n");
  const auto splits = [&](const Names& names) {
    std::vector<std::string> given;
    for (const std::string& name : names) given.push_back(dir / name);
    Names found;
    for (const SourceInput& input : value_or_throw(expand(given)).inputs) found.push_back(input.split);
    return found;
  };
  EXPECT_EQ(splits({"train", "val"}), (Names{"train", "val"}));
  EXPECT_EQ(splits({"train_labels.csv", "val_labels.csv"}), (Names{"train", "val"}));
  EXPECT_EQ(splits({"a/train.json", "a/test.json"}), (Names{"train", "test"}));
  EXPECT_EQ(splits({"train/", "val/"}), (Names{"train", "val"})) << "as the shell completes them";
  EXPECT_EQ(splits({"train/shapes", "val/shapes"}), (Names{"train", "val"}));
  EXPECT_EQ(splits({"train_labels.csv", "a/train.json"}), (Names{"", ""})) << "one split alone is none";
}

TEST(Inputs, FilesOfPublishedSetsMakeTheSplitsThatTheirFolderMakes) {
  TempDir dir;
  for (const char* name :
       {"data_batch_1.bin", "data_batch_2.bin", "test_batch.bin", "train-images-idx3-ubyte.gz",
        "t10k-images-idx3-ubyte.gz", "train_set.npz", "t10k_set.npz", "c/train.bin", "c/test.bin",
        "c/fine_label_names.txt", "d/train.bin", "d/test.bin"})
    write_text(dir / name, "x");
  const auto inputs = [&](const Names& names, bool splits = true) {
    std::vector<std::string> given;
    for (const std::string& name : names) given.push_back(dir / name);
    return value_or_throw(expand_inputs(given, "", splits));
  };
  const auto splits = [&](const Names& names, bool make = true) {
    Names found;
    for (const SourceInput& input : inputs(names, make).inputs) found.push_back(input.split);
    return found;
  };
  EXPECT_EQ(splits({"*_batch*.bin"}), (Names{"train", "train", "val"}));
  EXPECT_EQ(inputs({"*_batch*.bin"}).notes,
            (Names{"[ingest] the files' names determine the splits: 2 files of train, 1 file of val; "
                   "--no-splits makes one dataset"}));
  EXPECT_EQ(splits({"*_batch*.bin"}, false), (Names{"", "", ""}));
  EXPECT_EQ(splits({"train-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz"}), (Names{"train", "val"}));
  EXPECT_EQ(splits({"c/train.bin", "c/test.bin"}), (Names{"train", "val"}));
  EXPECT_EQ(splits({"d/train.bin", "d/test.bin"}), (Names{"train", "test"})) << "of no published set";
  EXPECT_EQ(splits({"train_set.npz", "t10k_set.npz"}), (Names{"train", "test"}));
  const SourceInputs half = inputs({"data_batch_1.bin", "t10k_set.npz"});
  ASSERT_EQ(half.notes.size(), 1u);
  EXPECT_NE(half.notes[0].find("all inputs become one dataset: some are named like the split 'test', but "),
            std::string::npos)
      << half.notes[0];
}

TEST(Inputs, ClassesOfSeveralInputsArePutTogetherByName) {
  TempDir dir;
  write_text(dir / "one/cat/1.jpg", "a");
  write_text(dir / "one/emu/.keep", "");
  write_text(dir / "two/dog/1.jpg", "b");
  write_text(dir / "more.csv", "path,label,who\ntwo/dog/1.jpg,cat,me\n");
  const std::vector<std::string> given = {dir / "two", dir / "one", dir / "more.csv"};
  auto source = value_or_throw(open_sources(given, "", {}));
  const SourceListing listing = value_or_throw(source->list());
  EXPECT_EQ(listing.classes, (Names{"cat", "dog"})) << "the folder emu is empty";
  EXPECT_EQ(field_names(listing), (Names{"who"}));
  ASSERT_EQ(listing.entries.size(), 3u);
  EXPECT_EQ(listing.entries[0].path, "two/dog/1.jpg");
  EXPECT_EQ(listing.entries[0].label, 1);
  EXPECT_EQ(listing.entries[1].path, "one/cat/1.jpg");
  EXPECT_EQ(listing.entries[1].extra, (Names{""}));
  EXPECT_EQ(listing.entries[2].path, "more.csv/two/dog/1.jpg");
  EXPECT_EQ(listing.entries[2].label, 0);
  EXPECT_EQ(listing.entries[2].extra, (Names{"me"}));
  for (const SourceEntry& entry : listing.entries) EXPECT_EQ(value_or_throw(source->read(entry)).size(), 1u);
}

TEST(Inputs, TextsAndHalfSplitsAreRefusedByName) {
  TempDir dir;
  write_text(dir / "a.txt", std::string(600, 'a'));
  write_text(dir / "one/train/cat/1.jpg", "a");
  write_text(dir / "one/val/cat/1.jpg", "a");
  write_text(dir / "two/cat/1.jpg", "a");
  const auto error = [](const std::vector<std::string>& given) {
    return value_or_throw(open_sources(given, "", {}))->list().status().message();
  };
  EXPECT_NE(error({dir / "two", dir / "a.txt"}).find("a.txt is one text among 2 inputs"), std::string::npos);
  EXPECT_NE(error({dir / "two", dir / "one"}).find("has splits, but"), std::string::npos);
}

}  // namespace
}  // namespace dlpipe::data

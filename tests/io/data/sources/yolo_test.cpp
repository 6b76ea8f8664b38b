#include <gtest/gtest.h>

#include "dlpipe/source.h"
#include "io/data/sources/typed_columns.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

class YoloSource : public testing::Test {
 protected:
  YoloSource() {
    for (const char* name : {"train/1", "train/2", "val/3"})
      write_text(dir / ("images/" + std::string(name) + ".jpg"), "x");
    write_text(dir / "labels/train/1.txt", "1 0.5 0.5 0.25 0.5\n0 0.25 0.75 0.5 0.5\n");
    write_text(dir / "labels/val/3.txt", "");
  }
  Result<SourceListing> list(const SourceOptions& options) {
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  Result<SourceListing> with_config(const std::string& yaml) {
    write_text(dir / "data.yaml", yaml);
    return list({dir / "data.yaml", ""});
  }
  std::string problem(const std::string& labels,
                      const std::string& yaml = "train: images/train\nnames: [a, b]\n") {
    write_text(dir / "labels/train/1.txt", labels);
    return value_or_throw(with_config(yaml)).entries[0].problem;
  }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

TEST_F(YoloSource, LinksThatLeadBackAreNamed) {
  std::filesystem::create_directory_symlink(".", dir / "images/train/back");
  const SourceListing listing = value_or_throw(with_config("train: images/train\nnames: [a, b]\n"));
  EXPECT_EQ(listing.entries.size(), 2u);
  EXPECT_NE(warnings_of(listing).find("images/train: ignored, links that lead back"), std::string::npos)
      << warnings_of(listing);
}

TEST_F(YoloSource, BoxesAreSharesOfTheirImage) {
  const SourceListing listing = value_or_throw(with_config(
      "path: ../elsewhere\ntrain: images/train\nval: images/val\ntest:\nnames:\n  0: cat\n  1: dog\n"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(listing.entries.size(), 3u);
  const SourceEntry& first = listing.entries[0];
  EXPECT_EQ(first.path, "train/1.jpg");
  EXPECT_EQ(first.name(), "1.jpg");
  EXPECT_EQ(first.split, "train");
  EXPECT_TRUE(first.annotated.is_relative);
  EXPECT_EQ(floats(first.extra[0]), (std::vector<float>{0.375f, 0.25f, 0.625f, 0.75f, 0, 0.5f, 0.5f, 1}));
  EXPECT_EQ(decode_labels(first.extra[1]), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(listing.entries[2].split, "val");
  EXPECT_EQ(listing.entries[2].extra[0], "");
  EXPECT_NE(warnings_of(listing).find("1 image has no label file"), std::string::npos)
      << warnings_of(listing);
  EXPECT_EQ(value_or_throw(source_->read(first)).size(), 1u);
}

TEST_F(YoloSource, LabelsThatAreALinkToNothingAreNotNoLabels) {
  std::filesystem::create_symlink("gone.txt", dir / "labels/train/2.txt");
  const SourceListing listing = value_or_throw(with_config("train: images/train\nnames: [a, b]\n"));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].problem, "");
  EXPECT_EQ(listing.entries[1].problem,
            "its label file " + dir.path() + "/labels/train/2.txt is a broken link");
  EXPECT_EQ(warnings_of(listing).find("have no label file"), std::string::npos) << warnings_of(listing);
}

TEST_F(YoloSource, PathsOfOtherMachinesAndLists) {
  EXPECT_EQ(
      value_or_throw(with_config("train: ../images/train\nval: ../images/val\nnc: 2\nnames: ['a', 'b']\n"))
          .entries.size(),
      3u)
      << "as Roboflow writes them";
  write_text(dir / "train.txt", "./images/train/1.jpg\n./images/val/3.jpg\n");
  const SourceListing listing = value_or_throw(with_config("train: train.txt\nnames: [a, b]\n"));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].path, "images/train/1.jpg");
  EXPECT_EQ(floats(listing.entries[0].extra[0]).size(), 8u);
  const std::string lost = with_config("train: nowhere\nnames: [a, b]\n").status().message();
  EXPECT_NE(lost.find("names nowhere, which is neither in"), std::string::npos) << lost;
  EXPECT_EQ(value_or_throw(with_config("train: [images/train, images/val]\nnames: [a, b]\n")).entries[2].path,
            "1/3.jpg");
  const SourceListing both =
      value_or_throw(with_config("train: images/train\nval: images/train\nnames: [a, b]\n"));
  EXPECT_EQ(both.entries.size(), 4u) << "coco128 validates on what it trains on";
}

// Pools of images are linked, and the labels lie beside the links.
TEST_F(YoloSource, ImagesOfAListAreThoseItNamesWhateverTheyLinkTo) {
  namespace fs = std::filesystem;
  write_text(dir / "pool/7.jpg", "xyz");
  fs::create_symlink(dir / "pool/7.jpg", dir / "images/train/out.jpg");
  fs::create_symlink("1.jpg", dir / "images/train/again.jpg");
  fs::create_symlink("../train/1.jpg", dir / "images/val/b.jpg");
  write_text(dir / "labels/train/out.txt", "0 0.5 0.5 1 1\n");
  write_text(dir / "labels/train/again.txt", "0 0.5 0.5 1 1\n");
  write_text(dir / "labels/val/b.txt", "0 0.5 0.5 1 1\n0 0.5 0.5 1 0.5\n0 0.5 0.5 0.5 1\n");
  write_text(dir / "train.txt", "images/train/out.jpg\nimages/train/again.jpg\nimages/train/1.jpg\n");
  write_text(dir / "val.txt", "./images/val/b.jpg\n");
  const SourceListing listing =
      value_or_throw(with_config("train: train.txt\nval: val.txt\nnames: [a, b]\n"));
  const auto seen = [&](size_t i) {
    const SourceEntry& entry = listing.entries.at(i);
    return entry.problem + std::string(entry.path) + " " +
           std::to_string(decode_labels(entry.extra[1]).size());
  };
  ASSERT_EQ(listing.entries.size(), 4u);
  EXPECT_EQ(seen(0), "train/images/train/out.jpg 1");
  EXPECT_EQ(seen(1), "train/images/train/again.jpg 1");
  EXPECT_EQ(seen(2), "train/images/train/1.jpg 2");
  EXPECT_EQ(seen(3), "val/images/val/b.jpg 3");
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[0])).size(), 3u);
}

// As people write them to have a rare class more often.
TEST_F(YoloSource, AnImageThatAListNamesAgainIsOneMoreSample) {
  write_text(dir / "train.txt",
             "images/train/1.jpg\n./images/train/2.jpg\nimages/train/1.jpg\nimages/train/1.jpg\n");
  write_text(dir / "val.txt", "images/train/1.jpg\n");
  const SourceListing listing =
      value_or_throw(with_config("train: train.txt\nval: val.txt\nnames: [a, b]\n"));
  ASSERT_EQ(listing.entries.size(), 5u);
  std::vector<std::string> paths;
  for (const SourceEntry& entry : listing.entries) {
    EXPECT_EQ(entry.problem, "");
    EXPECT_EQ(value_or_throw(source_->read(entry)), std::vector<std::byte>(1, std::byte{'x'}));
    paths.push_back(entry.path);
    if (entry.name() != "images/train/1.jpg") continue;
    EXPECT_EQ(decode_labels(entry.extra[1]), (std::vector<int64_t>{1, 0}));
    EXPECT_EQ(source_->where(entry)->file, dir / "images/train/1.jpg");
  }
  EXPECT_EQ(paths, (std::vector<std::string>{"train/images/train/1.jpg", "train/images/train/2.jpg",
                                             "train/again-2/images/train/1.jpg",
                                             "train/again-3/images/train/1.jpg", "val/images/train/1.jpg"}));
  EXPECT_EQ(listing.entries[3].split, "train");
  EXPECT_NE(warnings_of(listing).find("2 lines of the lists repeat an image, and each adds another sample"),
            std::string::npos)
      << warnings_of(listing);
}

TEST_F(YoloSource, AListMayWriteTheFolderThroughAnotherLink) {
  TempDir other;
  std::filesystem::create_directory_symlink(dir.path(), other / "link");
  write_text(dir / "train.txt", other / "link/images/train/1.jpg\n");
  const SourceListing listing = value_or_throw(with_config("train: train.txt\nnames: [a, b]\n"));
  ASSERT_EQ(listing.entries.size(), 1u);
  EXPECT_EQ(listing.entries[0].problem, "");
  EXPECT_EQ(listing.entries[0].path, "images/train/1.jpg");
  EXPECT_EQ(decode_labels(listing.entries[0].extra[1]).size(), 2u);
}

TEST_F(YoloSource, AFolderNeedsNoYaml) {
  SourceListing listing = value_or_throw(list({dir.path(), ""}));
  EXPECT_EQ(listing.entries[2].split, "val");
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"0", "1"}));
  EXPECT_NE(warnings_of(listing).find("named by their numbers"), std::string::npos);
  write_text(dir / "classes.txt", "cat\ndog\nbird\n");
  EXPECT_EQ(value_or_throw(list({dir.path(), ""})).classes.size(), 3u);
}

TEST_F(YoloSource, ByteOrderMarksArePartOfNoClassNumberOrPath) {
  const std::string mark = "\xef\xbb\xbf";
  write_text(dir / "classes.txt", mark + "cat\r\ndog\r\n");
  EXPECT_EQ(value_or_throw(list({dir.path(), ""})).classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(problem(mark + "0 0.5 0.5 0.25 0.5\r\n"), "");
  write_text(dir / "train.txt", mark + "./images/train/1.jpg\n");
  const SourceListing listing = value_or_throw(with_config(mark + "train: train.txt\nnames: [a, b]\n"));
  ASSERT_EQ(listing.entries.size(), 1u);
  EXPECT_EQ(listing.entries[0].path, "images/train/1.jpg");
}

// People give what the images lie in.
TEST_F(YoloSource, TheFolderOfItsImagesStandsForIt) {
  write_text(dir / "data.yaml", "train: images/train\nval: images/val\nnames: [cat, dog]\n");
  for (const char* end : {"images", "images/"}) {
    const SourceListing listing = value_or_throw(list({dir / end, ""}));
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
    ASSERT_EQ(listing.entries.size(), 3u);
    EXPECT_EQ(listing.entries[2].split, "val");
    EXPECT_NE(
        listing.warnings.at(0).find("holds the images of the YOLO dataset " + dir.path() + ", which is read"),
        std::string::npos)
        << listing.warnings[0];
  }
  const Status split = list({dir / "images/train", ""}).status();
  EXPECT_NE(split.message().find("of one split of the YOLO dataset " + dir.path() + "; ingest all of it"),
            std::string::npos)
      << split.message();
  // Class folders, or no labels beside them: images of classes.
  write_text(dir / "other/images/cat/1.jpg", "x");
  write_text(dir / "other/labels/1.txt", "0 0.5 0.5 1 1\n");
  EXPECT_EQ(value_or_throw(list({dir / "other/images", ""})).classes, std::vector<std::string>{"cat"});
  write_text(dir / "plain/images/dog/1.jpg", "x");
  EXPECT_EQ(value_or_throw(list({dir / "plain/images", ""})).classes, std::vector<std::string>{"dog"});
}

// Darknet's folders, as CVAT, Roboflow and labelImg write them.
TEST_F(YoloSource, ListsBesideClassFoldersAreNoLabels) {
  for (const char* file : {"dtd/images/banded/1.jpg", "dtd/images/dotted/1.jpg", "dtd/labels/train1.txt"})
    write_text(dir / file, "x");
  const SourceListing listing = value_or_throw(list({dir / "dtd", ""}));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"banded", "dotted"}));
  EXPECT_TRUE(listing.fields.empty());
  write_text(dir / "dtd/labels/banded/1.txt", "0 0.5 0.5 1 1\n");
  EXPECT_EQ(std::string(value_or_throw(find_source({dir / "dtd", ""}))->name), "yolo");
}

TEST_F(YoloSource, LabelsMayLieBesideTheirImages) {
  const auto pair = [&](const std::string& stem) {
    write_text(dir / (stem + ".jpg"), "x");
    write_text(dir / (stem + ".txt"), "1 0.5 0.5 0.25 0.5\n");
  };
  pair("cvat/obj_train_data/1");
  pair("cvat/obj_valid_data/2");
  write_text(dir / "cvat/obj.names", "cat\ndog\n");
  write_text(dir / "cvat/train.txt", "data/obj_train_data/1.jpg\n");
  pair("roboflow/train/1");
  pair("roboflow/valid/2");
  for (const char* split : {"train", "valid"})
    write_text(dir / ("roboflow/" + std::string(split) + "/_darknet.labels"), "cat\ndog\n");
  for (const char* folder : {"cvat", "roboflow"}) {
    const SourceListing listing = value_or_throw(list({dir / folder, ""}));
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
    ASSERT_EQ(listing.entries.size(), 2u);
    EXPECT_EQ(listing.entries[0].split, "train");
    EXPECT_EQ(listing.entries[1].split, "val");
    EXPECT_EQ(decode_labels(listing.entries[1].extra[1]), std::vector<int64_t>{1});
    EXPECT_EQ(value_or_throw(source_->read(listing.entries[1])).size(), 1u);
  }
  pair("flat/1");
  write_text(dir / "flat/classes.txt", "cat\ndog\n");
  EXPECT_EQ(value_or_throw(list({dir / "flat", ""})).entries.at(0).split, "");
  // A text beside an image may be its caption.
  write_text(dir / "captions/a/1.jpg", "x");
  write_text(dir / "captions/a/1.txt", "5 cats at 0.5 of 1 2\n");
  EXPECT_EQ(value_or_throw(list({dir / "captions", ""})).classes, std::vector<std::string>{"a"});
}

// As CVAT writes them.
TEST_F(YoloSource, ImagesWithLabelsBesideThemMayBeInFolders) {
  for (const char* stem : {"a/1", "a/2", "b/1", "b/deep/1"}) {
    write_text(dir / ("cvat/obj_train_data/" + std::string(stem) + ".jpg"), "x");
    write_text(dir / ("cvat/obj_train_data/" + std::string(stem) + ".txt"), "0 .5 .5 .2 .2\n");
  }
  write_text(dir / "cvat/obj.names", "cat\n");
  write_text(dir / "cvat/obj.data", "classes = 1\ntrain = data/train.txt\nnames = data/obj.names\n");
  write_text(dir / "cvat/train.txt", "data/obj_train_data/a/1.jpg\ndata/obj_train_data/a/2.jpg\n");
  const SourceListing listing = value_or_throw(list({dir / "cvat", ""}));
  EXPECT_EQ(listing.classes, std::vector<std::string>{"cat"});
  ASSERT_EQ(listing.entries.size(), 4u);
  for (const SourceEntry& entry : listing.entries) EXPECT_EQ(floats(entry.extra[0]).size(), 4u) << entry.path;
}

TEST_F(YoloSource, PolygonsAndKeyPoints) {
  write_text(dir / "labels/train/1.txt", "0 0.1 0.5 0.3 0.25 0.2 0.75\n");
  SourceListing listing = value_or_throw(with_config("train: images/train\nnames: [a]\n"));
  EXPECT_EQ(floats(listing.entries[0].extra[0]), (std::vector<float>{0.1f, 0.25f, 0.3f, 0.75f}));
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"boxes", "box_labels", "mask"}));
  EXPECT_NE(listing.entries[0].extra[2], "");
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_NE(listing.entries[1].extra[2], "") << "an image without objects has a mask of 0 alone";
  write_text(dir / "labels/train/1.txt", "0 0.5 0.5 1 1 0.1 0.2 2 0.3 0.4 0\n");
  listing = value_or_throw(with_config("train: images/train\nnames: [a]\nkpt_shape: [2, 3]\n"));
  ASSERT_EQ(listing.fields.size(), 3u);
  EXPECT_EQ(listing.fields[2].shape, (Shape{2, 3}));
  EXPECT_EQ(floats(listing.entries[0].extra[2]), (std::vector<float>{0.1f, 0.2f, 2, 0.3f, 0.4f, 0}));
  write_text(dir / "labels/train/1.txt", "0 0.5 0.5 1 1 0.1 0.2 0 0\n");
  listing = value_or_throw(with_config("train: images/train\nnames: [a]\nkpt_shape: [2, 2]\n"));
  EXPECT_EQ(floats(listing.entries[0].extra[2]), (std::vector<float>{0.1f, 0.2f, 2, 0, 0, 0}));
}

TEST_F(YoloSource, ConfidencesOfPredictionsAreLeftAsideWithANote) {
  write_text(dir / "labels/train/1.txt",
             "0 0.5 0.5 1 1 0.93\n0 0.1 0.5 0.3 0.25 0.2 0.75 0.5\n0 0.5 0.5 1 1\n");
  const SourceListing listing = value_or_throw(with_config("train: images/train\nnames: [a]\n"));
  EXPECT_EQ(listing.entries[0].problem, "");
  EXPECT_EQ(floats(listing.entries[0].extra[0]).size(), 12u);
  EXPECT_NE(warnings_of(listing).find("2 lines of labels end with an extra number, the confidence"),
            std::string::npos)
      << warnings_of(listing);
  EXPECT_NE(problem("0 0.5 0.5 1 1 7").find("6 numbers"), std::string::npos) << "no confidence";
}

TEST_F(YoloSource, RepeatedLinesAreIgnoredAndCounted) {
  write_text(dir / "labels/train/1.txt",
             "0 0.5 0.5 1 1\n1 0.5 0.5 1 1\n0 0.5 0.5 1 1\r\n\n\n0 0.5 0.5 1 1\n");
  const SourceListing listing = value_or_throw(with_config("train: images/train\nnames: [a, b]\n"));
  EXPECT_EQ(decode_labels(listing.entries[0].extra[1]), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(floats(listing.entries[0].extra[0]).size(), 8u);
  const std::string warnings = warnings_of(listing);
  EXPECT_NE(warnings.find("2 lines of labels that repeat"), std::string::npos) << warnings;
  EXPECT_NE(warnings.find(dir / "labels/train/1.txt"), std::string::npos) << warnings;
  write_text(dir / "labels/train/1.txt", "0 0.5 0.5 1 1\n1 0.5 0.5 1 1\n");
  EXPECT_EQ(warnings_of(value_or_throw(source_->list())).find("repeat"), std::string::npos);
}

TEST_F(YoloSource, AKeyThatIsGivenTwiceIsNamedWithItsLine) {
  const auto config = [&](const std::string& yaml) { return with_config(yaml).status().message(); };
  const std::string twice = config("train: images/train\nnames: [a, b]\nnc: 2\nnames: [c, d]\n");
  EXPECT_NE(twice.find("data.yaml: line 4: the key 'names' is given a second time"), std::string::npos)
      << twice;
  const std::string number = config("train: images/train\nnames:\n  0: a\n  1: b\n  0: c\n");
  EXPECT_NE(number.find("line 5: the key '0' is given a second time"), std::string::npos) << number;
  const std::string other = config("train: images/train\nnames: [a, b]\nlicense: x\nlicense: y\n");
  EXPECT_NE(other.find("line 4: the key 'license' is given a second time"), std::string::npos) << other;
}

TEST_F(YoloSource, DeepNestingIsNamed) {
  const std::string yaml =
      "train: images/train\nnames: [a, b]\nx: " + std::string(5000, '[') + std::string(5000, ']');
  const std::string text = with_config(yaml).status().message();
  EXPECT_NE(text.find("data.yaml: line 3: values are nested too deeply"), std::string::npos) << text;
}

TEST_F(YoloSource, WhatIsWrongIsNamed) {
  EXPECT_EQ(problem("0 0.5 0.5 1 1"), "");
  EXPECT_NE(problem("0 0.5 0.5 1 1\n0 0.5 0.5 1\n").find("1.txt line 2: 4 numbers"), std::string::npos);
  EXPECT_NE(problem("2 0.5 0.5 1 1").find("there is no class 2, classes are 0 to 1"), std::string::npos);
  EXPECT_NE(problem("-1 0.5 0.5 1 1").find("there is no class -1, classes are 0 to"), std::string::npos);
  EXPECT_NE(problem("0 320 240 64 64").find("320 is not a share"), std::string::npos);
  EXPECT_NE(problem("0 0.5 0.5 nan 1").find("'nan' is not finite"), std::string::npos);
  EXPECT_NE(problem("0 0.5 0.5 1e400 1").find("'1e400' is too large"), std::string::npos);
  EXPECT_EQ(problem("0 +0.5 0.5 1 1"), "");
  EXPECT_NE(problem("cat 0.5 0.5 1 1").find("'cat' is not a number"), std::string::npos);
  const auto config = [&](const std::string& yaml) { return with_config(yaml).status().message(); };
  EXPECT_NE(config("train: images/train\n").find("no 'names'"), std::string::npos);
  EXPECT_NE(config("names: [a]\n").find("neither 'train' nor 'val'"), std::string::npos);
  EXPECT_NE(config("train: images/train\nnames: {0: a, 2: b}\n").find("has class 2, but not class 1"),
            std::string::npos);
  EXPECT_NE(config("train: images/train\nnames: [a, a]\n").find("'a' twice"), std::string::npos);
  EXPECT_NE(config("train: images/train\nnc: 3\nnames: [a]\n").find("'nc' is 3, 'names' has 1"),
            std::string::npos);
  EXPECT_NE(config("train: [images/train\nnames: [a]\n").find("line "), std::string::npos);
  EXPECT_NE(config("train: {a: b}\nnames: [a]\n").find("data.yaml: line 1"), std::string::npos);
  EXPECT_NE(config("hello").find("not a mapping of keys"), std::string::npos);
  EXPECT_NE(config("train: images/val\nval: images/val\nnames: [a]\nkpt_shape: [0, 3]").find("kpt_shape"),
            std::string::npos);
  std::filesystem::remove_all(dir / "labels");
  EXPECT_NE(
      config("train: images/train\nnames: [a]\n").find("none of the 2 images has a label file; looked for"),
      std::string::npos);
}

}  // namespace
}  // namespace dlpipe::data

#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "dlpipe/source.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

class SegmentationSource : public testing::Test {
 protected:
  void write_pairs(const std::string& images, const std::string& masks, const std::string& end = ".png") {
    for (const char* name : {"1", "2", "3"}) {
      write_text(dir / (images + "/" + name + ".jpg"), "x");
      write_text(dir / (masks + "/" + name + end), "mask");
    }
  }
  Result<SourceListing> list(const SourceOptions& options) {
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  bool is_segmentation() {
    return value_or_throw(find_source({dir.path(), ""}))->name == std::string("segmentation");
  }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

TEST_F(SegmentationSource, EachImageHasTheMaskOfItsName) {
  write_pairs("images", "masks");
  write_text(dir / "images/4.jpg", "x");
  write_text(dir / "masks/9.png", "mask");
  std::filesystem::create_directory_symlink(".", dir / "images/back");
  ASSERT_TRUE(is_segmentation());
  const SourceListing listing = value_or_throw(list({dir.path(), ""}));
  EXPECT_TRUE(listing.classes.empty());
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"mask"});
  EXPECT_EQ(listing.fields[0].kind, FieldKind::kMask);
  ASSERT_EQ(listing.entries.size(), 4u);
  for (const SourceEntry& entry : listing.entries) {
    EXPECT_EQ(entry.label, -1);
    EXPECT_EQ(entry.problem, "");
    EXPECT_EQ(value_or_throw(source_->read(entry)).size(), 1u);
    if (entry.path == "4.jpg") {
      EXPECT_EQ(entry.extra, std::vector<std::string>{""});
      continue;
    }
    EXPECT_EQ(value_or_throw(source_->read_referred(entry, entry.extra.at(0))).size(), 4u);
  }
  const std::string warnings = warnings_of(listing);
  for (const char* part :
       {"is read as images with masks: images in 'images', their masks in 'masks' with the same names",
        "1 image has no mask", "masks without an image: '9.png'", "to a folder above them: 'back'",
        "fields for its images, but no classes"})
    EXPECT_NE(warnings.find(part), std::string::npos) << part << " in " << warnings;
}

TEST_F(SegmentationSource, FoldersAreKnownByManyNames) {
  for (const auto& [images, masks] : std::map<std::string, std::string>{{"JPEGImages", "SegmentationClass"},
                                                                        {"imgs", "labels"},
                                                                        {"img", "annotations"},
                                                                        {"image", "GT"}}) {
    write_pairs("of " + images + "/" + images, "of " + images + "/" + masks, "_mask.png");
    const SourceListing listing = value_or_throw(list({dir / ("of " + images), ""}));
    ASSERT_EQ(field_names(listing), std::vector<std::string>{"mask"}) << images;
    for (const SourceEntry& entry : listing.entries) EXPECT_NE(entry.extra.at(0), "") << images;
  }
}

TEST_F(SegmentationSource, SplitsLieOutsideOrInside) {
  write_pairs("outside/train/images", "outside/train/masks");
  write_pairs("outside/valid/images", "outside/valid/masks");
  write_text(dir / "outside/test/images/1.jpg", "x");
  write_pairs("inside/images/train", "inside/masks/train");
  write_pairs("inside/images/val", "inside/masks/val");
  for (const std::string& root : {dir / "outside", dir / "inside"}) {
    const SourceListing listing = value_or_throw(list({root, ""}));
    std::map<std::string, int> of_split;
    for (const SourceEntry& entry : listing.entries) {
      ++of_split[entry.split];
      EXPECT_EQ(entry.name(), entry.path.substr(entry.path.find('/') + 1));
      EXPECT_EQ(entry.extra.at(0).empty(), entry.split == "test") << entry.path;
    }
    EXPECT_EQ(of_split["train"], 3) << root;
    EXPECT_EQ(of_split["val"], 3) << root;
    EXPECT_EQ(of_split["test"], root == dir / "outside" ? 1 : 0);
    const SourceListing whole = value_or_throw(list({.path = root, .splits = false}));
    for (const SourceEntry& entry : whole.entries) EXPECT_EQ(entry.split, "");
  }
}

// Pascal VOC without its boxes.
TEST_F(SegmentationSource, ListsMakeSplits) {
  write_pairs("JPEGImages", "SegmentationClass");
  write_text(dir / "JPEGImages/4.jpg", "x");
  write_text(dir / "ImageSets/Segmentation/train.txt", "1\n3\n9\n");
  write_text(dir / "ImageSets/Segmentation/val.txt", "2\n");
  write_text(dir / "ImageSets/Main/train.txt", "2\n");
  ASSERT_TRUE(is_segmentation());
  const SourceListing listing = value_or_throw(list({dir.path(), ""}));
  std::map<std::string, std::string> splits;
  for (const SourceEntry& entry : listing.entries) {
    splits[entry.path] = entry.split;
    EXPECT_EQ(entry.problem.empty(), entry.path != "9.jpg") << entry.problem;
    if (!entry.problem.empty()) continue;
    EXPECT_EQ(value_or_throw(source_->read_referred(entry, entry.extra.at(0))).size(), 4u);
  }
  EXPECT_EQ(splits, (std::map<std::string, std::string>{
                        {"1.jpg", "train"}, {"2.jpg", "val"}, {"3.jpg", "train"}, {"9.jpg", "train"}}));
  const std::string warnings = warnings_of(listing);
  EXPECT_NE(warnings.find("ImageSets/Segmentation; ignored: 1 image"), std::string::npos) << warnings;
  EXPECT_EQ(warnings.find("masks without an image"), std::string::npos) << warnings;
  const SourceListing whole = value_or_throw(list({.path = dir.path(), .splits = false}));
  EXPECT_EQ(whole.entries.size(), 4u);
  for (const SourceEntry& entry : whole.entries) EXPECT_EQ(entry.split, "");
}

TEST_F(SegmentationSource, Ade20kIsReadAsPublished) {
  for (const char* split : {"training", "validation"})
    write_pairs(std::string("ADE/images/") + split, std::string("ADE/annotations/") + split);
  write_text(dir / "ADE/objectInfo150.txt", "Idx Ratio Train Val Stuff Name");
  const SourceListing listing = value_or_throw(list({dir / "ADE", ""}));
  ASSERT_EQ(listing.entries.size(), 6u);
  for (const SourceEntry& entry : listing.entries) {
    EXPECT_EQ(entry.split, entry.path.starts_with("training/") ? "train" : "val") << entry.path;
    EXPECT_NE(entry.extra.at(0), "") << entry.path;
  }
}

TEST_F(SegmentationSource, FoldersOfSplitsMayHaveAYear) {
  write_pairs("images/train2017", "annotations/train2017", "_labelTrainIds.png");
  write_pairs("images/val2017", "annotations/val2017", "_labelTrainIds.png");
  for (const SourceEntry& entry : value_or_throw(list({dir.path(), ""})).entries) {
    EXPECT_EQ(entry.split, entry.path.starts_with("train2017/") ? "train" : "val") << entry.path;
    EXPECT_NE(entry.extra.at(0), "") << entry.path;
  }
}

TEST_F(SegmentationSource, CityscapesIsReadAsPublished) {
  for (const char* split : {"train", "val"}) {
    const std::string image = dir / (std::string("leftImg8bit/") + split + "/ulm/ulm_000000_000019");
    const std::string mask = dir / (std::string("gtFine/") + split + "/ulm/ulm_000000_000019");
    write_text(image + "_leftImg8bit.png", "x");
    for (const char* end : {"_gtFine_color.png", "_gtFine_instanceIds.png", "_gtFine_polygons.json"})
      write_text(mask + end, "other");
    write_text(mask + "_gtFine_labelIds.png", "ids");
  }
  ASSERT_TRUE(is_segmentation());
  SourceListing listing = value_or_throw(list({dir.path(), ""}));
  ASSERT_EQ(listing.entries.size(), 2u);
  for (const SourceEntry& entry : listing.entries) {
    EXPECT_EQ(entry.split, entry.path.substr(0, entry.path.find('/')));
    EXPECT_EQ(value_or_throw(source_->read_referred(entry, entry.extra.at(0))).size(), 3u);
  }
  EXPECT_EQ(warnings_of(listing).find("ignored"), std::string::npos) << warnings_of(listing);
  write_text(dir / "gtFine/train/ulm/ulm_000000_000019_gtFine_labelTrainIds.png", "train");
  listing = value_or_throw(list({dir.path(), ""}));
  for (const SourceEntry& entry : listing.entries)
    EXPECT_EQ(value_or_throw(source_->read_referred(entry, entry.extra.at(0))).size(),
              entry.split == "train" ? 5u : 3u);
}

TEST_F(SegmentationSource, MasksMayLieBesideTheFoldersOfSplits) {
  for (const char* end : {"annot", "_masks"}) {
    TempDir other;
    for (const char* split : {"train", "val", "test"}) {
      write_text(other / (std::string(split) + "/1.png"), "x");
      if (split != std::string("test")) write_text(other / (std::string(split) + end + "/1.png"), "mask");
    }
    const SourceListing listing = value_or_throw(list({other.path(), ""}));
    ASSERT_EQ(field_names(listing), std::vector<std::string>{"mask"}) << end;
    ASSERT_EQ(listing.entries.size(), 3u) << end;
    for (const SourceEntry& entry : listing.entries)
      EXPECT_EQ(entry.extra.at(0).empty(), entry.split == "test") << entry.path;
  }
}

TEST_F(SegmentationSource, WhatIsNoMaskIsNamed) {
  write_pairs("images", "masks");
  write_text(dir / "images/4.jpg", "x");
  write_text(dir / "masks/4.jpg", "x");
  const SourceListing listing = value_or_throw(list({dir.path(), ""}));
  for (const SourceEntry& entry : listing.entries)
    EXPECT_EQ(entry.problem.find("masks/4.jpg is not a PNG of class numbers") != std::string::npos,
              entry.path == "4.jpg")
        << entry.problem;
}

TEST_F(SegmentationSource, OtherFoldersAreWhatTheyWere) {
  write_text(dir / "images/1.jpg", "x");
  write_text(dir / "masks/2.jpg", "x");
  EXPECT_FALSE(is_segmentation()) << "no mask has an image: two classes of these names";
  write_pairs("labels", "photos/more");
  EXPECT_FALSE(is_segmentation());
  TempDir yolo;
  write_text(yolo / "images/1.jpg", "x");
  write_text(yolo / "labels/1.txt", "0 0.5 0.5 0.1 0.1");
  EXPECT_EQ(value_or_throw(find_source({yolo.path(), ""}))->name, std::string("yolo"));
}

}  // namespace
}  // namespace dlpipe::data

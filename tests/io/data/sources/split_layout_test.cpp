#include "io/data/sources/layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "dlpipe/source.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

std::string parts_of(const SplitLayout& layout) {
  std::string text;
  for (const SplitLayout::Part& part : layout.parts) text += part.folder + "=" + part.split + " ";
  return text;
}

SplitLayout layout_of(const std::vector<TopFolder>& top) {
  return value_or_throw(find_split_layout("SRC", top));
}
std::string refusal(const std::vector<TopFolder>& top) {
  const Status status = find_split_layout("SRC", top).status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_NE(status.message().find("--no-splits"), std::string::npos)
      << "the way out is named: " << status.message();
  return status.message();
}
std::string notes_of(const SplitLayout& layout) {
  std::string text;
  for (const std::string& note : layout.notes) text += note + "\n";
  return text;
}

TEST(SplitLayout, FoldersOfOneNameInTwoSplitsMakeIt) {
  const SplitLayout layout = layout_of({{"Train", {"cat", "dog"}, 0}, {"VALIDATION", {"cat", "dog"}, 0}});
  EXPECT_EQ(parts_of(layout), "Train=train VALIDATION=val ");
  EXPECT_EQ(layout.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_NE(notes_of(layout).find("'Train' as train, 'VALIDATION' as val"), std::string::npos)
      << notes_of(layout);
  EXPECT_EQ(parts_of(layout_of({{"test", {"a"}, 0}, {"train", {"a", "b"}, 0}, {"valid", {"b"}, 0}})),
            "train=train valid=val test=test ")
      << "validation and test may lack classes";
  EXPECT_EQ(parts_of(layout_of({{"Test", {"a"}, 0}, {"Training", {"a"}, 0}})), "Training=train Test=test ");
  EXPECT_EQ(parts_of(layout_of({{"test", {"a"}, 0}, {"val", {"a"}, 0}})), "val=val test=test ");
}

TEST(SplitLayout, ClassesThatAreCalledTrainAreClasses) {
  EXPECT_EQ(parts_of(layout_of({{"bus", {}, 9}, {"car", {}, 9}, {"train", {}, 9}})), "");
  EXPECT_EQ(parts_of(layout_of({{"bus", {"red"}, 0}, {"car", {"red"}, 0}, {"train", {"red"}, 0}})), "");
  EXPECT_EQ(parts_of(layout_of({{"exam", {}, 9}, {"test", {}, 9}})), "");
  EXPECT_EQ(parts_of(layout_of({{"bus", {"a", "b"}, 0}, {"train", {"a", "c"}, 0}})), "");
  EXPECT_EQ(parts_of(layout_of({{"bus", {"a", "b"}, 0}, {"car", {"a", "b"}, 0}, {"train", {"a", "b"}, 0}})),
            "");
  EXPECT_EQ(parts_of(layout_of({{"train", {"cat"}, 0}})), "") << "one alone is no split of anything";
  const SplitLayout both = layout_of({{"bus", {}, 9}, {"test", {}, 9}, {"train", {}, 9}});
  EXPECT_EQ(parts_of(both), "");
  EXPECT_NE(notes_of(both).find("'train', 'test' are used as classes"), std::string::npos) << notes_of(both);
}

TEST(SplitLayout, WordsOfNamesAreSplitsWhereTheyShareClasses) {
  EXPECT_EQ(parts_of(layout_of({{"train_mini", {"a", "b"}, 0}, {"val", {"a", "b"}, 0}})),
            "train_mini=train val=val ");
  EXPECT_EQ(parts_of(layout_of({{"seg_pred", {}, 9},
                                {"seg_test", {"a"}, 0, "seg_test/seg_test"},
                                {"seg_train", {"a", "b"}, 0, "seg_train/seg_train"}})),
            "seg_train/seg_train=train seg_test/seg_test=test ");
  EXPECT_EQ(parts_of(layout_of({{"train_images", {}, 9}, {"test_images", {}, 9}})), "");
  EXPECT_EQ(parts_of(layout_of({{"train_station", {"x"}, 0}, {"test_tube", {"y"}, 0}})), "");
  EXPECT_EQ(parts_of(layout_of({{"train", {"x"}, 0}, {"train_masks", {"x"}, 0}})), "") << "one split";
  EXPECT_NE(refusal({{"train.1", {"a"}, 0}, {"train.2", {"b"}, 0}, {"val.X", {"a", "b"}, 0}})
                .find("to join them: dlpipe ingest SRC/train.1 SRC/train.2 SRC/val.X DST"),
            std::string::npos);
}

TEST(SplitLayout, WhatStandsBesideSplitsIsLeftAsideWithANote) {
  const SplitLayout layout =
      layout_of({{"devkit", {}, 0}, {"train", {"a"}, 0}, {"unlabeled", {}, 99}, {"val", {"a"}, 0}});
  EXPECT_EQ(parts_of(layout), "train=train val=val ");
  EXPECT_NE(notes_of(layout).find("'devkit', 'unlabeled'"), std::string::npos) << notes_of(layout);
}

TEST(SplitLayout, TestImagesWithoutLabelsAreLeftAsideWithANote) {
  for (const TopFolder& test : {TopFolder{"test", {}, 100}, TopFolder{"test", {"images"}, 0}}) {
    const SplitLayout layout = layout_of({test, {"train", {"a", "b"}, 0}, {"val", {"a", "b"}, 0}});
    EXPECT_EQ(parts_of(layout), "train=train val=val ");
    EXPECT_NE(notes_of(layout).find("'test' has none of the class folders of 'train': it is ignored"),
              std::string::npos)
        << notes_of(layout);
    EXPECT_EQ(parts_of(layout_of({test, {"train", {"a", "b"}, 0}})), "train=train ");
  }
  EXPECT_NE(notes_of(layout_of({{"train", {"a"}, 0}, {"val", {}, 0}})).find("'val' is empty"),
            std::string::npos);
}

TEST(SplitLayout, SplitsThatCannotBeMadeAreRefused) {
  EXPECT_NE(refusal({{"train", {"a", "b"}, 0}, {"val", {"a", "c\x1b"}, 0}})
                .find("has classes that are not in 'train': 'c\\u001b'"),
            std::string::npos);
  EXPECT_NE(refusal({{"train", {"a", "b"}, 0}, {"val", {"c", "d"}, 0}}).find("'c', 'd'"), std::string::npos);
  EXPECT_NE(refusal({{"test", {"a", "c"}, 0}, {"train", {"a", "b"}, 0}}).find("'test' has classes"),
            std::string::npos);
  EXPECT_NE(
      refusal({{"train", {"a", "b"}, 0}, {"val", {}, 50'000}}).find("'val' has images, but no class folders"),
      std::string::npos);
  EXPECT_NE(refusal({{"train", {}, 9}, {"val", {}, 9}}).find("the classes are unknown"), std::string::npos);
  EXPECT_NE(refusal({{"train", {"a"}, 0}, {"val", {"a"}, 0}, {"valid", {"a"}, 0}})
                .find("two folders for the split val, 'val' and 'valid'"),
            std::string::npos);
  for (const char* other : {"dev", "holdout", "unseen"})
    EXPECT_NE(refusal({{other, {"a", "b"}, 0}, {"train", {"a", "b"}, 0}})
                  .find(std::string("'train' is named like a split, but '") + other +
                        "', which has the same class"),
              std::string::npos);
}

TEST(PublishedLayouts, PatternsMatchNamesAsTheTableSays) {
  TempDir dir;
  for (const char* file :
       {"annotations/a.JSON", "annotations/captions_b.json", "annotations/.c.json", "annotations/d.txt",
        "images/e.jpg", "Train/x/metadata.csv", "other/x/metadata.csv", "Images/f.png"})
    write_text(dir / file, "x");
  const auto found = [&](std::string_view pattern, size_t most = SIZE_MAX) {
    std::vector<std::string> paths;
    for (const std::filesystem::path& path : files_like(dir.path(), pattern, most))
      paths.push_back(path.lexically_relative(dir.path()).string());
    return paths;
  };
  using Paths = std::vector<std::string>;
  EXPECT_EQ(found("annotations/*.json"), (Paths{"annotations/a.JSON", "annotations/captions_b.json"}));
  EXPECT_EQ(found("annotations/*.json|!captions_*"), Paths{"annotations/a.JSON"});
  EXPECT_EQ(found("annotations/d.txt|?.json"), (Paths{"annotations/d.txt", "annotations/a.JSON"}));
  EXPECT_EQ(found("Images|images/"), (Paths{"Images", "images"}));
  EXPECT_EQ(found("images"), Paths()) << "no file";
  EXPECT_EQ(found("SPLIT/*/metadata.csv"), Paths{"Train/x/metadata.csv"});
  EXPECT_EQ(found("*/IMAGE"), (Paths{"Images/f.png", "images/e.jpg"}));
  EXPECT_EQ(found("*/*/metadata.csv", 1).size(), 1u);
}

TEST(PublishedLayouts, ARowNamesItsSourceOrItsCommand) {
  for (const PublishedLayout& layout : published_layouts()) {
    const bool is_known = std::any_of(source_table().begin(), source_table().end(),
                                      [&](const SourceRecord* one) { return one->name == layout.source; });
    EXPECT_NE(is_known, !layout.command.empty()) << layout.source << layout.means;
    EXPECT_FALSE(layout.has.empty() && layout.files.empty());
  }
}

TEST(PublishedLayouts, OxfordPetIsReadByPython) {
  TempDir dir;
  write_text(dir / "images/Abyssinian_100.jpg", "x");
  write_text(dir / "annotations/trimaps/Abyssinian_100.png", "x");
  write_text(dir / "annotations/trainval.txt", "Abyssinian_100 1 1 1\n");
  const Status status = find_source({dir.path(), ""}).status();
  EXPECT_NE(status.message().find("dlpipe.from_dataset(torchvision.datasets.OxfordIIITPet(...), DST)"),
            std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace dlpipe::data

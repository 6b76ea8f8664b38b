#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/text.h"
#include "dlpipe/source.h"
#include "io/data/sources/inputs/inputs.h"
#include "io/data/sources/typed_columns.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

constexpr const char* kTensorFlow = "filename,width,height,class,xmin,ymin,xmax,ymax\n";
constexpr const char* kWheat = "image_id,width,height,bbox,source\n";

class BoxListSource : public testing::Test {
 protected:
  Result<SourceListing> list(const SourceOptions& options) {
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  /// Of a list beside the images a.jpg and b.jpg.
  Result<SourceListing> list_text(const std::string& text) {
    for (const char* name : {"p/a.jpg", "p/b.jpg"}) write_text(dir / name, "x");
    write_text(dir / "p/boxes.csv", text);
    return list({dir / "p/boxes.csv", ""});
  }
  /// Of the image a.jpg; one that has none is looked for, too.
  std::string problem(const std::string& text) {
    return value_or_throw(list_text(text)).entries.at(0).problem;
  }

  struct Seen {
    std::vector<float> boxes;
    std::vector<std::string> classes;
    bool operator==(const Seen&) const = default;
  };
  static std::map<std::string, Seen> seen_in(const SourceListing& listing) {
    std::map<std::string, Seen> all;
    for (const SourceEntry& entry : listing.entries) {
      EXPECT_EQ(entry.problem, "") << entry.path;
      EXPECT_EQ(entry.label, -1);
      Seen& seen = all[entry.path];
      seen.boxes = floats(entry.extra.at(0));
      for (const int64_t label : decode_labels(entry.extra.at(1)))
        seen.classes.push_back(listing.classes.at(static_cast<size_t>(label)));
    }
    return all;
  }
  static void expect_part(const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

TEST_F(BoxListSource, ClassesMayBeWholeNumbersWrittenAsFractions) {
  const SourceListing listing = value_or_throw(list_text(
      std::string(kTensorFlow) + "a.jpg,9,9,1.0,0,0,1,1\na.jpg,9,9,1,0,0,1,1\nb.jpg,9,9,10.0,0,0,1,1\n"));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"1", "10"}));
  EXPECT_EQ(decode_labels(listing.entries[0].extra[1]), (std::vector<int64_t>{0, 0}));
}

TEST_F(BoxListSource, NumbersMayHaveDecimalCommasWhereSemicolonsDivideCells) {
  const std::vector<float> wanted = {1.5f, 2, 3.25f, 4};
  for (const char* text :
       {"filename;class;xmin;ymin;xmax;ymax\na.jpg;cat;1,5;2;3,25;4\n", "a.jpg;1,5;2;3,25;4;cat\n"}) {
    const auto seen = seen_in(value_or_throw(list_text(text)));
    EXPECT_EQ(seen.at("a.jpg").boxes, wanted) << text;
  }
}

TEST_F(BoxListSource, LinesOfAnImageAreItsBoxesInTheListsOrder) {
  const SourceListing listing = value_or_throw(
      list_text(std::string(kTensorFlow) + "a.jpg,500,375,dog,8,240,195,371\nb.jpg,416,416,cat,0,0,416,416\n"
                                           "./a.jpg,500,375,cat,48.5,1,499,370\n"));
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"boxes", "box_labels"})) << "as YOLO's";
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_FALSE(listing.has_class_order);
  const auto seen = seen_in(listing);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen.at("a.jpg"), (Seen{{8, 240, 195, 371, 48.5f, 1, 499, 370}, {"dog", "cat"}}));
  EXPECT_EQ(seen.at("b.jpg"), (Seen{{0, 0, 416, 416}, {"cat"}}));
  EXPECT_EQ(listing.entries[0].annotated.width, 500);
  EXPECT_EQ(listing.entries[0].annotated.height, 375);
  EXPECT_FALSE(listing.entries[0].annotated.is_relative);
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[0])).size(), 1u);
  EXPECT_EQ(value_or_throw(source_->where(listing.entries[0])).file, dir / "p/a.jpg");
  expect_part(warnings_of(listing),
              "is read as a list of boxes in the format of TensorFlow's object detection: 3 boxes in 2 "
              "images, below " +
                  (dir / "p"));
}

// Roboflow's _annotations.csv in each folder; one of them alone is no split.
TEST_F(BoxListSource, FoldersOfSplitsHoldAListEach) {
  for (const char* folder : {"train/", "valid/", "test/"}) {
    write_text(dir / (std::string("r/") + folder + "x_jpg.rf.1.jpg"), "x");
    write_text(dir / (std::string("r/") + folder + "_annotations.csv"),
               std::string(kTensorFlow) + "x_jpg.rf.1.jpg,10,10," + folder[0] + ",1,2,3,4\n");
  }
  const SourceListing listing = value_or_throw(list({dir / "r", ""}));
  std::map<std::string, std::string> splits;
  for (const SourceEntry& entry : listing.entries) {
    splits[entry.path] = entry.split;
    EXPECT_EQ(entry.name(), "x_jpg.rf.1.jpg");
    EXPECT_EQ(value_or_throw(source_->read(entry)).size(), 1u);
  }
  EXPECT_EQ(splits, (std::map<std::string, std::string>{{"test/x_jpg.rf.1.jpg", "test"},
                                                        {"train/x_jpg.rf.1.jpg", "train"},
                                                        {"valid/x_jpg.rf.1.jpg", "val"}}));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"t", "v"})) << "one table of all";
  for (const SourceEntry& entry : value_or_throw(list({.path = dir / "r", .splits = false})).entries)
    EXPECT_EQ(entry.split, "");
  const SourceListing one = value_or_throw(list({dir / "r/valid", ""}));
  EXPECT_EQ(one.entries.at(0).path, "x_jpg.rf.1.jpg");
  EXPECT_EQ(one.entries.at(0).split, "");
}

// As tutorials of TensorFlow's object detection lay them.
TEST_F(BoxListSource, ListsInOneFolderAreSplitsByTheirNames) {
  for (const char* name :
       {"images/1.jpg", "images/2.jpg", "apart/images/train/1.jpg", "apart/images/test/1.jpg"})
    write_text(dir / name, "x");
  for (const char* folder : {"", "data/", "annotations/"}) {
    for (const auto& [name, image] :
         {std::pair("train_labels.csv", "1.jpg"), std::pair("test_labels.csv", "2.jpg")})
      write_text(dir / concat(folder, name), concat(kTensorFlow, image, ",10,10,cat,1,2,3,4\n"));
    const SourceListing listing = value_or_throw(list({dir.path(), ""}));
    ASSERT_EQ(listing.entries.size(), 2u) << folder;
    EXPECT_EQ(listing.entries[0].path, "test_labels/2.jpg");
    EXPECT_EQ(listing.entries[0].split, "test");
    EXPECT_EQ(listing.entries[1].split, "train");
    EXPECT_EQ(value_or_throw(source_->read(listing.entries[1])).size(), 1u);
    EXPECT_EQ(warnings_of(listing).find("that no line names"), std::string::npos) << "another list names it";
    for (const char* name : {"train_labels.csv", "test_labels.csv"})
      std::filesystem::rename(dir / concat(folder, name), dir / concat("apart/", name));
  }
  for (const char* name : {"train_labels.csv", "test_labels.csv"})
    write_text(dir / concat("apart/", name), concat(kTensorFlow, "1.jpg,10,10,cat,1,2,3,4\n"));
  const SourceListing apart = value_or_throw(list({dir / "apart", ""}));
  ASSERT_EQ(apart.entries.size(), 2u);
  EXPECT_EQ(value_or_throw(source_->where(apart.entries[1])).file, dir / "apart/images/train/1.jpg");
  write_text(dir / "apart/more.csv", concat(kTensorFlow, "1.jpg,10,10,cat,1,2,3,4\n"));
  expect_part(list({dir / "apart", ""}).status().message(),
              "more.csv has a name that does not indicate a split");
  EXPECT_EQ(value_or_throw(list({.path = dir / "apart", .splits = false})).entries.size(), 3u);
}

TEST_F(BoxListSource, OfImagesThatDifferInTheirEndingsTheFirstByNameIsTaken) {
  std::string text = kWheat;
  for (int i = 0; i < 8; ++i) {
    const std::string stem = concat("w/train/", i);
    const bool turn = i % 2 == 0;  // whatever order the folder gives them
    write_text(dir / concat(stem, turn ? ".png" : ".jpg"), "x");
    write_text(dir / concat(stem, turn ? ".jpg" : ".png"), "x");
    text += concat(i, ",1024,1024,\"[1, 2, 3, 4]\",usask_1\n");
  }
  write_text(dir / "w/train.csv", text);
  const SourceListing listing = value_or_throw(list({dir / "w/train.csv", ""}));
  ASSERT_EQ(listing.entries.size(), 8u);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(listing.entries[i].path, concat(i, ".jpg"));
}

TEST_F(BoxListSource, SeveralListsAndImagesAndManifestSayWhatIsRead) {
  write_text(dir / "pics/1.jpg", "x");
  write_text(dir / "pics/2.jpg", "x");
  write_text(dir / "l/train.csv", concat(kTensorFlow, "1.jpg,10,10,cat,1,2,3,4\n1.jpg,10,10,dog,1,2,3,4\n"));
  write_text(dir / "l/val.csv", concat(kTensorFlow, "2.jpg,10,10,ant,1,2,3,4\n"));
  const std::vector<std::string> both = {dir / "l/train.csv", dir / "l/val.csv"};
  SourceOptions options;
  options.images = dir / "pics";
  const SourceListing listing = value_or_throw(value_or_throw(open_sources(both, "", options))->list());
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"ant", "cat", "dog"}));
  EXPECT_EQ(listing.entries[0].split, "train");
  EXPECT_EQ(decode_labels(listing.entries[0].extra[1]), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(seen_in(value_or_throw(list({.path = dir / "pics", .manifest = dir / "l/train.csv"}))).size(),
            1u);
  expect_part(list({dir / "l/train.csv", ""}).status().message(),
              "give the folder of its images with --images");
}

TEST_F(BoxListSource, OpenImagesGivesSharesAndNamesMoreThanPeopleHave) {
  const std::string head =
      "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction,"
      "IsInside\n";
  write_text(dir / "oi/train/0000599864fd15b3.jpg", "x");
  write_text(dir / "oi/train/00006bdb1eb5cd74.jpg", "x");
  write_text(dir / "oi/train/ffff.jpg", "x");
  std::string text = head;
  for (int i = 0; i < 40; ++i)  // more than are looked at for the folder
    text += concat("00000000000000", 10 + i, ",xclick,/m/0k4j,1,0.1,0.2,0.3,0.4,0,0,0,0,0\n");
  text +=
      "0000599864fd15b3,activemil,/m/0k4j,1,0.1,0.5,0.25,0.75,0,1,1,0,0\n"
      "00006bdb1eb5cd74,xclick,/m/0zzz,1,0,0.9999999,0,1,-1,-1,-1,-1,-1\n"
      "0000599864fd15b3,xclick,/m/01g317,1,0,1,0,1,0,0,0,0,0\n";
  write_text(dir / "oi/train-annotations-bbox.csv", text);
  const SourceListing bare = value_or_throw(list({dir / "oi/train-annotations-bbox.csv", ""}));
  EXPECT_EQ(bare.classes, (std::vector<std::string>{"/m/01g317", "/m/0k4j", "/m/0zzz"}));
  expect_part(warnings_of(bare), "there is no class-descriptions-boxable.csv next to");

  write_text(dir / "oi/class-descriptions-boxable.csv",
             "/m/011k07,Tortoise\n/m/01g317,Person\n/m/0k4j,\"Car, any\"\n");
  for (const char* source : {"oi/train-annotations-bbox.csv", "oi"}) {
    const SourceListing listing = value_or_throw(list({dir / source, ""}));
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"Tortoise", "Person", "Car, any", "/m/0zzz"}))
        << "as published, and behind them what the file doesn't name";
    EXPECT_TRUE(listing.has_class_order);
    EXPECT_EQ(field_names(listing), (std::vector<std::string>{"boxes", "box_labels", "crowd"}));
    const auto seen = seen_in(listing);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen.at("0000599864fd15b3.jpg"),
              (Seen{{0.1f, 0.25f, 0.5f, 0.75f, 0, 0, 1, 1}, {"Car, any", "Person"}}));
    EXPECT_TRUE(listing.entries[0].annotated.is_relative);
    EXPECT_EQ(floats(listing.entries[0].extra[2]), (std::vector<float>{1, 0}));
    EXPECT_EQ(floats(listing.entries[1].extra[2]), (std::vector<float>{0})) << "-1 is not known";
    const std::string warnings = warnings_of(listing);
    expect_part(warnings, "ignored: 40 images that ");
    expect_part(warnings, "in the format of Open Images: 3 boxes in 2 images, below " + (dir / "oi/train"));
    expect_part(warnings, "ignored: the columns 'Source', 'Confidence', 'IsOccluded'");
    expect_part(warnings, "ignored: 1 image in the same folders that no line names");
    EXPECT_EQ(std::count(warnings.begin(), warnings.end(), '\n'), 4) << warnings;
  }
  write_text(dir / "oi/validation/aaaa.jpg", "x");
  write_text(dir / "oi/validation-annotations-bbox.csv", head + "aaaa,xclick,/m/0k4j,1,0,12,0,1,0,0,0,0,0\n");
  const SourceListing both = value_or_throw(list({dir / "oi", ""}));
  ASSERT_EQ(both.entries.size(), 3u);
  EXPECT_EQ(both.entries[2].split, "val");
  expect_part(both.entries[2].problem,
              "validation-annotations-bbox.csv line 2: 'XMax' is 12, which is not a share");
  std::filesystem::remove_all(dir / "oi/train");
  expect_part(
      list({dir / "oi/train-annotations-bbox.csv", ""}).status().message(),
      "more images, but none of them is in its folder or those next to it; give the folder of its images");
}

TEST_F(BoxListSource, RetinanetNeedsNoHeadAndKeepsImagesWithoutBoxes) {
  const SourceListing listing =
      value_or_throw(list_text("a.jpg,837,346,981,456,cow\na.jpg,215,312,279,391,cat\nb.jpg,,,,,\n"));
  const auto seen = seen_in(listing);
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen.at("a.jpg"), (Seen{{837, 346, 981, 456, 215, 312, 279, 391}, {"cow", "cat"}}));
  EXPECT_EQ(seen.at("b.jpg"), (Seen{}));
  EXPECT_EQ(seen_in(value_or_throw(list_text("b.jpg,,,,,\na.jpg,1,2,3,4,cow\n"))).size(), 2u)
      << "either may be first";
  // Paths of this machine, of another one, and from the list's folder.
  const std::string a = dir / "p/a.jpg";
  EXPECT_EQ(seen_in(value_or_throw(list_text(a + ",1,2,3,4,cow\n" + a + ",1,2,3,5,cow\n")))
                .at("a.jpg")
                .boxes.size(),
            8u);
  EXPECT_EQ(seen_in(value_or_throw(list_text("/nowhere/of/x/b.jpg,1,2,3,4,cow\n"))).count("b.jpg"), 1u);
  EXPECT_EQ(seen_in(value_or_throw(list_text("../p/a.jpg,1,2,3,4,cow\n../p/b.jpg,,,,,\n"))).count("a.jpg"),
            1u);
  EXPECT_EQ(value_or_throw(source_->where(value_or_throw(source_->list()).entries[0])).file,
            (std::filesystem::current_path() / (dir / "p/a.jpg")).lexically_normal().string());
}

TEST_F(BoxListSource, ABoxOutsideOfAnImageOfUnknownSizeIsFoundWhenItIsRead) {
  write_text(dir / "p/a.jpg", "x");
  write_text(dir / "p/boxes.csv", "c.ppm,0,0,9,9,cow\nc.ppm,70,0,90,9,cow\nd.ppm,0,0,9,9,cow\n");
  for (const char* name : {"p/c.ppm", "p/d.ppm"})
    write_text(dir / name, "P6\n64 48\n255\n" + std::string(size_t{64} * 48 * 3, 'x'));
  const SourceListing listing = value_or_throw(list({dir / "p/boxes.csv", ""}));
  expect_part(std::string(source_->read(listing.entries.at(0)).status().message()),
              "boxes.csv line 2: the box 70, 0, 90, 9 is outside the image, which is 64x48");
  EXPECT_TRUE(source_->read(listing.entries.at(1)).ok());
}

TEST_F(BoxListSource, WheatHasABoxInOneCellAndNoClass) {
  write_text(dir / "w/train/b6ab77fd7.jpg", "x");
  write_text(dir / "w/train/00333207f.png", "x");
  write_text(dir / "w/train/without.jpg", "x");
  write_text(dir / "w/sample_submission.csv", "image_id,PredictionString\naac893a91,1.0 0 0 50 50\n");
  write_text(dir / "w/train.csv", concat(kWheat,
                                         "b6ab77fd7,1024,1024,\"[834.0, 222.0, 56.0, 36.0]\",usask_1\n"
                                         "b6ab77fd7,1024,1024,\"[226.0, 548.0, 130.0, 58.0]\",usask_1\n"
                                         "00333207f,1024,1024,\"[0, 654, 37, 111]\",ethz_1\n"));
  for (const char* source : {"w/train.csv", "w"}) {
    const SourceListing listing = value_or_throw(list({dir / source, ""}));
    const auto seen = seen_in(listing);
    ASSERT_EQ(seen.size(), 2u);
    EXPECT_EQ(seen.at("b6ab77fd7.jpg"),
              (Seen{{834, 222, 890, 258, 226, 548, 356, 606}, {"object", "object"}}));
    EXPECT_EQ(seen.at("00333207f.png"), (Seen{{0, 654, 37, 765}, {"object"}}));
    EXPECT_EQ(listing.entries[0].split, "");
    expect_part(warnings_of(listing), "has no column of classes: all boxes get the class 'object'");
    expect_part(warnings_of(listing), "ignored: the column 'source'");
    expect_part(warnings_of(listing), "ignored: 1 image in the same folders that no line names");
  }
}

TEST_F(BoxListSource, OtherNamesOfColumnsInAnyOrderAreKnown) {
  const Seen expected{{1, 2, 3, 4}, {"cow"}};
  for (const char* text : {"image,xmin,ymin,xmax,ymax,label\na.jpg,1,2,3,4,cow\n",
                           "class,image_id,x_max,y_max,x_min,y_min\ncow,a,3,4,1,2\n",
                           "path,x1,y1,x2,y2,class_name\na.jpg,1,2,3,4,cow\n",
                           "Filename;Class;XMin;YMin;XMax;YMax\na.jpg;cow;1;2;3;4\n"})
    EXPECT_EQ(seen_in(value_or_throw(list_text(text))).at("a.jpg"), expected) << text;
  EXPECT_EQ(
      seen_in(value_or_throw(list_text("image,xmin,ymin,xmax,ymax\na.jpg,1,2,3,4\n"))).at("a.jpg").classes,
      std::vector<std::string>{"object"});
}

TEST_F(BoxListSource, CoordinatesNoneOfWhichIsAboveOneAreShares) {
  const SourceListing listing = value_or_throw(
      list_text(concat(kTensorFlow, "a.jpg,500,375,cat,0,0.25,0.5,1\nb.jpg,500,375,cat,0,0,1,1\n")));
  EXPECT_TRUE(listing.entries[0].annotated.is_relative);
  EXPECT_EQ(listing.entries[0].annotated.width, 500) << "still compared with the image's";
  expect_part(warnings_of(listing), "no coordinate is above 1, so they are read as shares");
}

TEST_F(BoxListSource, WhatIsWrongIsNamedWithItsLine) {
  const std::string good = "a.jpg,500,375,cat,1,2,30,40\n";
  const auto after = [&](const std::string& line) { return problem(kTensorFlow + good + line); };
  EXPECT_EQ(after(good), "");
  expect_part(after("a.jpg,500,375,cat,1,two,30,40\n"),
              "boxes.csv line 3: 'ymin' is 'two', which is not a number");
  expect_part(after("a.jpg,500,375,cat,1,nan,30,40\n"),
              "boxes.csv line 3: 'ymin' is 'nan', which is not finite");
  expect_part(after("a.jpg,500,375,cat,1,,30,40\n"), "boxes.csv line 3: 'ymin' is '', which is not a number");
  expect_part(after("a.jpg,500,375,cat,31,2,30,40\n"), "line 3: the box 31, 2, 30, 40 ends before it begins");
  expect_part(after("a.jpg,500,375,cat,1,41,30,40\n"), "line 3: the box 1, 41, 30, 40 ends before it begins");
  expect_part(after("a.jpg,500,375,cat,500,2,530,40\n"),
              "line 3: the box 500, 2, 530, 40 is outside the image, which is 500x375");
  EXPECT_NE(after("a.jpg,500,375,cat,-9,2,0,40\n"), "");
  EXPECT_NE(after("a.jpg,500,375,cat,1,375,30,400\n"), "");
  EXPECT_NE(after("a.jpg,500,375,cat,1,-9,30,0\n"), "");
  EXPECT_EQ(after("a.jpg,500,375,cat,-9,-9,530,400\n"), "") << "batches cut it off at the border";
  expect_part(after("a.jpg,500,375,,1,2,30,40\n"), "line 3: its 'class' is empty");
  expect_part(after("a.jpg,640,375,cat,1,2,30,40\n"),
              "line 3: the image size is 640x375 here, but an earlier line says 500x375");
  expect_part(after("a.jpg,500,many,cat,1,2,30,40\n"),
              "line 3: 'height' is 'many', which is not a number of pixels");
  expect_part(problem(concat(kWheat, "a,500,375,\"[1, 2, 3]\",x\n")), "line 2: '[1, 2, 3]' has 3 numbers");
  expect_part(problem(concat(kWheat, "a,500,375,\"[1, 2, 3, -4]\",x\n")),
              "line 2: the box 1, 2, 4, -2 ends before");
  EXPECT_EQ(seen_in(value_or_throw(list_text(kTensorFlow + good + "b.jpg,500,375,cat,,,,\n"))).at("b.jpg"),
            (Seen{}));
  const SourceListing lost = value_or_throw(list_text(kTensorFlow + good + "c.jpg,500,375,cat,1,2,30,40\n"));
  EXPECT_EQ(lost.entries[1].problem, "there is no file " + (dir / "p/c.jpg"));
  const auto message = [&](const std::string& text) {
    return std::string(list_text(text).status().message());
  };
  expect_part(message(kTensorFlow + good + "a.jpg,500,375,cat,1,2,30\n"),
              "line 3: 7 columns instead of the 8 of the first line");
  expect_part(message("a.jpg,1,2,3,4,cow\na.jpg,1,2,3,4\n"),
              "line 2: 5 columns instead of the 6 of path,x1,y1,x2,y2,class");
  expect_part(message(kTensorFlow + good + ",500,375,cat,1,2,30,40\n"), "line 3: the path is empty");
  expect_part(message(kTensorFlow), "lists no image");
}

// What another source or an option says stays as it was.
TEST_F(BoxListSource, ListsThatAreNoneAndThoseOfOthersAreNotTaken) {
  const std::string line = "a.jpg,500,375,cat,1,2,30,40\n";
  write_text(dir / "p/a.jpg", "x");
  write_text(dir / "p/boxes.csv", kTensorFlow + line);
  SourceOptions labelled = {dir / "p/boxes.csv", ""};
  labelled.label = "class";
  const SourceListing listing = value_or_throw(list(labelled));
  EXPECT_EQ(listing.entries[0].label, 0) << "a manifest, by --label";
  write_text(dir / "p/boxes.csv", kTensorFlow + line + line);
  expect_part(list(labelled).status().message(),
              "a.jpg is already listed on line 2; list it once. A list with a line per box has the columns "
              "filename,class,xmin,ymin,xmax,ymax and is read without --label and --field");
  const auto of_manifest = [&](const std::string& text) {
    return value_or_throw(list_text(text)).entries[0].label == 0;
  };
  EXPECT_TRUE(of_manifest("a.jpg,cat,1,2,3,4\n")) << "another order";
  EXPECT_TRUE(of_manifest("a.jpg,3,1,2,3,4\n")) << "numbers alone may be anything";
  EXPECT_TRUE(of_manifest("path,label,bbox\na.jpg,cat,\"[1, 2, 3, 4]\"\n"));
  write_text(dir / "y/images/a.jpg", "x");
  write_text(dir / "y/labels/a.txt", "0 0.5 0.5 0.5 0.5\n");
  write_text(dir / "y/train.csv", kTensorFlow + line);
  EXPECT_EQ(std::string(value_or_throw(find_source({dir / "y", ""}))->name), "yolo");
}

}  // namespace
}  // namespace dlpipe::data

// Several inputs as one: what becomes of the numbers of their classes.
#include <gtest/gtest.h>

#include "io/data/sources/inputs/inputs.h"
#include "io/data/sources/typed_columns.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

using Names = std::vector<std::string>;
using Labels = std::vector<int64_t>;

class ManySources : public testing::Test {
 protected:
  Result<SourceListing> list(const Names& names) {
    Names given;
    for (const std::string& name : names) given.push_back(dir / name);
    return value_or_throw(open_sources(given, "", {}))->list();
  }
  /// What `dlpipe export` writes: classes in an order, and a mask for each image.
  void write_list(const std::string& name, const std::string& classes, const std::string& label,
                  const std::string& fields = R"("mask:mask")",
                  const std::string& mask = R"(, "mask": "m.png")") {
    write_text(dir / (name + "/1.jpg"), "x");
    write_text(dir / (name + "/m.png"), "mask");
    write_text(dir / (name + "/fields.jsonl"), "{\"fields\": [" + fields + "], \"classes\": [" + classes +
                                                   "]}\n{\"path\": \"1.jpg\", \"label\": \"" + label + "\"" +
                                                   mask + "}\n");
  }
  void write_coco(const std::string& name, const std::string& categories, int category) {
    write_text(dir / (name + "/images/" + name + ".jpg"), "x");
    write_text(dir / (name + "/" + name + ".json"), R"({"images": [{"id": 1, "file_name": ")" + name +
                                                        R"(.jpg"}], "annotations": [{"image_id": 1,
                  "category_id": )" + std::to_string(category) +
                                                        R"(, "bbox": [1, 2, 3, 4]}], "categories": [)" +
                                                        categories + "]}");
  }
  void write_yolo(const std::string& name, const std::string& names) {
    write_text(dir / (name + "/images/1.jpg"), "x");
    write_text(dir / (name + "/labels/1.txt"), "1 0.5 0.5 0.1 0.1\n0 0.5 0.5 0.1 0.1\n");
    write_text(dir / (name + "/classes.txt"), names);
  }
  TempDir dir;
};

TEST_F(ManySources, ColumnsOfZerosAndOnesMeanTheSameInAllLists) {
  for (const char* file : {"train/1.jpg", "train/2.jpg", "valid/3.jpg", "valid/4.jpg"})
    write_text(dir / file, "x");
  write_text(dir / "train/_classes.csv", "filename, dog, cat\n1.jpg, 1, 0\n2.jpg, 1, 1\n");
  write_text(dir / "valid/_classes.csv", "filename, dog, cat\n3.jpg, 1, 0\n4.jpg, 0, 1\n");
  const SourceListing both = value_or_throw(list({"train/_classes.csv", "valid/_classes.csv"}));
  EXPECT_EQ(both.classes, (Names{"dog", "cat"}));
  ASSERT_EQ(field_names(both), Names{"labels"});
  const std::vector<Labels> expected = {{0}, {0, 1}, {0}, {1}};
  ASSERT_EQ(both.entries.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(decode_labels(both.entries[i].extra.at(0)), expected[i]) << both.entries[i].path;
    EXPECT_EQ(both.entries[i].label, -1);
    EXPECT_EQ(both.entries[i].split, i < 2 ? "train" : "val");
  }
  EXPECT_NE(warnings_of(both).find("all these lists become the field 'labels'"), std::string::npos);
}

TEST_F(ManySources, ClassesOfBoxesAreNotCalledEmpty) {
  for (const std::string name : {"a", "b"}) {
    write_text(dir / (name + "/1.jpg"), "x");
    write_text(dir / (name + "/boxes.csv"),
               "path,xmin,ymin,xmax,ymax,class\n1.jpg,1,2,3,4,cat_" + name + "\n1.jpg,1,2,3,4,dog\n");
  }
  const SourceListing boxes = value_or_throw(list({"a/boxes.csv", "b/boxes.csv"}));
  EXPECT_EQ(boxes.classes.size(), 3u);
  EXPECT_EQ(warnings_of(boxes).find("has no image"), std::string::npos) << warnings_of(boxes);

  // Nor beside a class for each image; one that nothing has is said.
  const std::string fields = R"("kinds:labels")";
  write_list("c", R"("cat", "dog", "owl")", "cat", fields, R"(, "kinds": ["dog"])");
  write_list("d", R"("cat", "dog", "owl")", "cat", fields, R"(, "kinds": ["dog", "cat"])");
  const std::string both = warnings_of(value_or_throw(list({"c/fields.jsonl", "d/fields.jsonl"})));
  EXPECT_EQ(both.find("'dog' has no image"), std::string::npos) << both;
  EXPECT_NE(both.find("'owl' has no image"), std::string::npos) << both;
}

TEST_F(ManySources, AnOrderOfClassesStaysAndOthersFollowByName) {
  write_coco("a", R"({"id": 1, "name": "zebra"}, {"id": 2, "name": "ant"})", 2);
  write_coco("b", R"({"id": 1, "name": "ant"}, {"id": 7, "name": "moth"})", 7);
  const SourceListing listing = value_or_throw(list({"a/a.json", "b/b.json"}));
  EXPECT_EQ(listing.classes, (Names{"zebra", "ant", "moth"}));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(decode_labels(listing.entries[0].extra.at(1)), (Labels{1}));
  EXPECT_EQ(decode_labels(listing.entries[1].extra.at(1)), (Labels{2}));
  const std::string warnings = warnings_of(listing);
  EXPECT_NE(warnings.find("'moth'"), std::string::npos) << warnings;
}

TEST_F(ManySources, YoloNumbersAreThoseOfItsNames) {
  write_yolo("a", "zebra\nant\n");
  write_yolo("b", "ant\nzebra\n");
  write_text(dir / "c/moth/1.jpg", "x");
  const SourceListing listing = value_or_throw(list({"a", "b"}));
  EXPECT_EQ(listing.classes, (Names{"zebra", "ant"}));
  EXPECT_EQ(decode_labels(listing.entries[0].extra.at(1)), (Labels{1, 0}));
  EXPECT_EQ(decode_labels(listing.entries[1].extra.at(1)), (Labels{0, 1}));
}

TEST_F(ManySources, MasksOfFilesNeedTheClassesOfAllInputsInOneOrder) {
  write_list("a", R"("zebra", "ant")", "ant");
  write_list("b", R"("ant", "zebra")", "ant");
  write_list("c", R"("zebra", "ant", "moth")", "moth");
  write_list("d", R"("zebra", "ant")", "zebra");
  const std::string refused = list({"a/fields.jsonl", "b/fields.jsonl"}).status().message();
  EXPECT_NE(refused.find((dir / "b/fields.jsonl") +
                         " has masks whose pixels are class numbers, and its class 'ant' would get number 1 "
                         "instead of 0; inputs with masks must have the same classes in the same order"),
            std::string::npos)
      << refused;
  EXPECT_FALSE(list({"c/fields.jsonl", "b/fields.jsonl"}).ok());
  const SourceListing longer = value_or_throw(list({"a/fields.jsonl", "c/fields.jsonl"}));
  EXPECT_EQ(longer.classes, (Names{"zebra", "ant", "moth"}));
  EXPECT_EQ(longer.entries[1].label, 2);
  const SourceListing same = value_or_throw(list({"a/fields.jsonl", "d/fields.jsonl"}));
  EXPECT_NE(warnings_of(same).find("all 2 inputs list the 2 classes in the same order, which is kept"),
            std::string::npos)
      << warnings_of(same);
  write_list("e", R"("ant", "zebra")", "ant", "", "");
  EXPECT_EQ(value_or_throw(list({"a/fields.jsonl", "e/fields.jsonl"})).entries[1].label, 1)
      << "no masks, no refusal";
}

TEST_F(ManySources, MasksWhoseNumbersNobodyNamesAreSaid) {
  for (const char* name : {"a", "b"}) {
    write_text(dir / (std::string(name) + "/images/1.jpg"), "x");
    write_text(dir / (std::string(name) + "/masks/1.png"), "mask");
  }
  const std::string warnings = warnings_of(value_or_throw(list({"a", "b"})));
  EXPECT_NE(warnings.find("masks are stored unchanged, and the class numbers in those of"), std::string::npos)
      << warnings;
  EXPECT_NE(warnings.find("mean the same in all 2 inputs with masks"), std::string::npos) << warnings;
}

TEST_F(ManySources, ClassesCalledByNumbersAmongNamesAreSaid) {
  write_text(dir / "a/cat/1.jpg", "x");
  write_text(dir / "a/dog/1.jpg", "x");
  write_text(dir / "list/1.jpg", "x");
  write_text(dir / "list/all.txt", "1.jpg 0\n");
  const SourceListing listing = value_or_throw(list({"a", "list/all.txt"}));
  EXPECT_EQ(listing.classes, (Names{"0", "cat", "dog"}));
  const std::string warnings = warnings_of(listing);
  EXPECT_NE(warnings.find("list/all.txt calls its classes '0', and "), std::string::npos) << warnings;
  EXPECT_NE(
      warnings.find("calls its classes 'cat', 'dog': they become different classes; if they are the same"),
      std::string::npos)
      << warnings;
}

// A number's bits would be read as another type's.
TEST_F(ManySources, NumbersOfTwoTypesAreRefused) {
  write_list("a", "", "", R"("score:numbers:i32")", R"(, "score": [1])");
  write_list("b", "", "", R"("score:numbers")", R"(, "score": [1.5])");
  EXPECT_TRUE(list({"a/fields.jsonl"}).ok());
  EXPECT_TRUE(list({"b/fields.jsonl"}).ok());
  const Status status = list({"a/fields.jsonl", "b/fields.jsonl"}).status();
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_NE(status.message().find("score"), std::string::npos) << status.message();
}

TEST_F(ManySources, ADamagedInputBeforeOthersKeepsTheirFields) {
  write_text(dir / "a.tar", std::string(512, 'x'));
  write_coco("b", R"({"id": 1, "name": "ant"})", 1);
  const SourceListing listing = value_or_throw(list({"a.tar", "b/b.json"}));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_TRUE(listing.entries[0].is_rest);
  EXPECT_EQ(listing.entries[1].extra.size(), listing.fields.size());
}

}  // namespace
}  // namespace dlpipe::data

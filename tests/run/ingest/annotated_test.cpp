// Boxes and key points on the way into records: in pixels of the image that is stored, or not at all.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/run/ingest/images.h"

namespace dlpipe::ingest {
namespace {

std::vector<float> floats_of(const data::Dataset& dataset, int64_t sample, std::string_view field) {
  const auto reader = value_or_throw(dataset.reader());
  const auto bytes =
      value_or_throw(data::field_bytes(dataset, value_or_throw(reader->record(sample)), field));
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

std::string coco_text(const std::string& images) {
  return R"({"images": [)" + images +
         R"(], "categories": [{"id": 1, "name": "cat", "keypoints": ["nose", "tail"]}],
    "annotations": [{"image_id": 1, "category_id": 1, "bbox": [4, 6, 8, 10], "keypoints": [4, 6, 2, 8, 10, 1]}]})";
}

TEST(Annotated, BoxesAndAllKeyPointsShrinkWithTheirImage) {
  TempDir dir;
  write_text(dir / "src/1.jpg", jpeg_text(1, 40, 20));
  write_text(dir / "src/list.json",
             coco_text(R"({"id": 1, "file_name": "1.jpg", "width": 40, "height": 20})"));
  IngestOptions options = options_for(dir / "src/list.json", dir / "dst");
  options.resize_max = 20;
  value_or_throw(ingest(options));
  const auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  EXPECT_EQ(floats_of(*dataset, 0, "boxes"), (std::vector<float>{2, 3, 6, 8}));
  EXPECT_EQ(floats_of(*dataset, 0, "points"), (std::vector<float>{2, 3, 2, 4, 5, 1}));
}

TEST(Annotated, AnnotationsOfAnImageOfAnotherSizeAreNotStored) {
  TempDir dir;
  write_text(dir / "src/1.jpg", jpeg_text(1, 40, 20));
  write_text(dir / "src/2.jpg", jpeg_text(2, 40, 20));
  write_text(dir / "src/list.json", coco_text(R"({"id": 1, "file_name": "1.jpg", "width": 80, "height": 40},
                                                 {"id": 2, "file_name": "2.jpg", "width": 40, "height": 20})"));
  const IngestReport report = value_or_throw(ingest(options_for(dir / "src/list.json", dir / "dst")));
  EXPECT_EQ(report.splits[0].samples, 1);
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].reason, "its annotations are for an image of 80x40, but the file is 40x20");
}

TEST(Annotated, MetadataOfHuggingFaceBringBoxesIntoEachSplit) {
  TempDir dir;
  for (const char* file : {"train/1.jpg", "train/2.jpg", "validation/1.jpg"})
    write_text(dir / ("src/" + std::string(file)), jpeg_text(1, 40, 20));
  write_text(dir / "src/train/metadata.jsonl",
             R"({"file_name": "1.jpg", "objects": {"bbox": [[4, 6, 8, 10]], "categories": ["cat"]}})"
             "\n"
             R"({"file_name": "2.jpg", "objects": {"bbox": [[4, 6, 8, 10]], "categories": ["cat", "dog"]}})"
             "\n");
  write_text(dir / "src/validation/metadata.jsonl",
             R"({"file_name": "1.jpg", "objects": {"bbox": [[0, 0, 40, 20]], "categories": ["dog"]}})"
             "\n");
  const IngestReport report = value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  ASSERT_EQ(report.skipped.size(), 1u);
  EXPECT_EQ(report.skipped[0].path, "train/2.jpg");
  expect_part(report.skipped[0].reason, "has 2 rows for 1 box");
  const auto train = value_or_throw(data::Dataset::open(dir / "dst", "train"));
  EXPECT_EQ(floats_of(*train, 0, "objects.bbox"), (std::vector<float>{4, 6, 12, 16}));
  const auto val = value_or_throw(data::Dataset::open(dir / "dst", "val"));
  EXPECT_EQ(floats_of(*val, 0, "objects.bbox"), (std::vector<float>{0, 0, 40, 20}));
  EXPECT_EQ(std::vector<std::string>(val->classes().begin(), val->classes().end()),
            (std::vector<std::string>{"cat", "dog"}));
}

TEST(Annotated, ImagesWithClassesOfBoxesAloneGetTheSameAdviceOnValidation) {
  TempDir dir;
  for (const uint64_t split : {1, 2}) {
    const std::string folder = dir / (split == 1 ? "src/train" : "src/test");
    write_text(folder + "/1.jpg", jpeg_text(split, 40, 20));
    write_text(folder + "/metadata.jsonl",
               R"({"file_name": "1.jpg", "objects": {"bbox": [[0, 0, 40, 20]], "categories": ["dog"]}})"
               "\n");
  }
  std::string said;
  for (const std::string& warning : value_or_throw(ingest(options_for(dir / "src", dir / "dst"))).warnings)
    said += warning + "\n";
  expect_part(said, "without 'val'; to validate on 'test', add --val " + (dir / "dst") + "/test");
  expect_part(said, "has classes of boxes, masks or labels, but not one per image");
  EXPECT_EQ(said.find("no classes"), std::string::npos) << said;
}

TEST(Annotated, LinesOfBoxesBecomeFieldsOfTheirImages) {
  TempDir dir;
  for (const char* name : {"1.jpg", "2.jpg"})
    write_text(dir / ("src/" + std::string(name)), jpeg_text(1, 40, 20));
  write_text(dir / "src/_annotations.csv",
             "filename,width,height,class,xmin,ymin,xmax,ymax\n1.jpg,40,20,dog,4,6,12,16\n2.jpg,80,20,cat,4,"
             "6,12,16\n"
             "1.jpg,40,20,cat,0,0,40,20\n");
  const IngestReport report = value_or_throw(ingest(options_for(dir / "src", dir / "dst")));
  ASSERT_EQ(report.skipped.size(), 1u);
  expect_part(report.skipped[0].reason, "for an image of 80x20, but the file is 40x20");
  const auto dataset = value_or_throw(data::Dataset::open(dir / "dst"));
  EXPECT_EQ(floats_of(*dataset, 0, "boxes"), (std::vector<float>{4, 6, 12, 16, 0, 0, 40, 20}));
  write_text(dir / "ids/pics/1.jpg", jpeg_text(1, 40, 20));
  write_text(dir / "ids/boxes.csv",
             "ImageID,LabelName,XMin,XMax,YMin,YMax\n1,/m/1,0.25,0.5,0.5,1\n2,/m/1,0,1,0,1\n");
  IngestOptions options = options_for(dir / "ids/boxes.csv", dir / "shares");
  options.images = dir / "ids/pics";
  EXPECT_TRUE(value_or_throw(ingest(options)).skipped.empty()) << "the list names more than people have";
  EXPECT_EQ(floats_of(*value_or_throw(data::Dataset::open(dir / "shares")), 0, "boxes"),
            (std::vector<float>{10, 10, 20, 20}));
}

}  // namespace
}  // namespace dlpipe::ingest

#include <gtest/gtest.h>

#include "dlpipe/source.h"
#include "io/data/codec/mask.h"
#include "io/data/sources/typed_columns.h"
#include "tests/io/data/codec/image_files.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

const std::string kCategories =
    R"("categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "car"}, {"id": 44, "name": "bottle"}])";

std::string json_of(const std::string& images, const std::string& annotations,
                    const std::string& categories = kCategories) {
  return R"({"info": {"year": 2017}, "images": [)" + images + R"(], "annotations": [)" + annotations + "], " +
         categories + "}";
}

class CocoSource : public testing::Test {
 protected:
  CocoSource() {
    for (const char* file : {"val2017/1.jpg", "val2017/2.jpg"}) write_text(dir / file, "x");
  }
  Result<SourceListing> list(const std::string& text) {
    write_text(dir / "annotations/instances_val2017.json", text);
    return open({dir / "annotations/instances_val2017.json", ""});
  }
  Result<SourceListing> open(const SourceOptions& options) {
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  std::string message(const std::string& text) { return list(text).status().message(); }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

const std::string kImages =
    R"({"id": 10, "file_name": "1.jpg", "width": 640, "height": 480}, {"id": 11, "file_name": "2.jpg"})";

TEST_F(CocoSource, AnImageOfTwoIdsIsNamedByBoth) {
  const std::string text =
      message(json_of(R"({"id": 10, "file_name": "1.jpg"}, {"id": 11, "file_name": "1.jpg"})", ""));
  EXPECT_NE(text.find("1.jpg is described twice, by image 10 of " +
                      (dir / "annotations/instances_val2017.json") + " and by image 11 of"),
            std::string::npos)
      << text;
}

TEST_F(CocoSource, ObjectsAreBoxesWithTheirClassesInTheOrderOfIds) {
  const SourceListing listing = value_or_throw(list(json_of(
      kImages, R"({"image_id": 10, "category_id": 18, "bbox": [1.5, 2, 10, 20], "iscrowd": 0, "area": 9,
                     "segmentation": [[1, 2, 3, 4, 5, 6]]},
                    {"image_id": 10, "category_id": 3, "bbox": [0, 0, 640, 480], "iscrowd": 1,
                     "segmentation": {"counts": [1, 2], "size": [480, 640]}})")));
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"car", "dog", "bottle"}));
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"boxes", "box_labels", "crowd", "mask"}));
  EXPECT_EQ(listing.fields[1].of, "boxes");
  ASSERT_EQ(listing.entries.size(), 2u);
  const SourceEntry& first = listing.entries[0];
  EXPECT_EQ(first.path, "1.jpg");
  EXPECT_EQ(first.label, -1);
  EXPECT_EQ(first.annotated.width, 640);
  EXPECT_EQ(floats(first.extra[0]), (std::vector<float>{1.5f, 2, 11.5f, 22, 0, 0, 640, 480}));
  EXPECT_EQ(decode_labels(first.extra[1]), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(floats(first.extra[2]), (std::vector<float>{0, 1}));
  const std::vector<std::string>& without_objects = listing.entries[1].extra;
  ASSERT_EQ(without_objects.size(), 4u);
  for (size_t field = 0; field < 3; ++field) EXPECT_EQ(without_objects[field], "") << field;
  EXPECT_NE(without_objects[3], "") << "its mask, of 0 alone";
  EXPECT_EQ(value_or_throw(source_->read(first)).size(), 1u);
}

/// An image's mask as its rows of digits; 255 as '?'.
std::string mask_of(const Source& source, const SourceEntry& entry) {
  const auto png = source.read_referred(entry, entry.extra.back());
  if (!png.ok()) return png.status().message();
  MaskDecoder decoder;
  const ConstImageView mask = value_or_throw(decoder.decode(*png));
  std::string text;
  for (int y = 0; y < mask.height; ++y) {
    for (int x = 0; x < mask.width; ++x)
      text += mask.row(y)[x] == 255 ? '?' : static_cast<char>('0' + mask.row(y)[x]);
    text += '\n';
  }
  return text;
}

void write_png(const std::string& path, int width, int height) {
  Pixels pixels(width, height, 3);
  const auto png = value_or_throw(encode_png(pixels.view()));
  write_text(path, std::string(reinterpret_cast<const char*>(png.data()), png.size()));
}

TEST_F(CocoSource, PolygonsAndRunsBecomeAMask) {
  for (const char* file : {"val2017/1.png", "val2017/2.png"}) write_png(dir / file, 6, 4);
  const SourceListing listing = value_or_throw(list(json_of(
      R"({"id": 1, "file_name": "1.png", "width": 6, "height": 4}, {"id": 2, "file_name": "2.png"})",
      R"({"image_id": 1, "category_id": 18, "bbox": [1, 1, 3, 2], "segmentation": [[1, 1, 4, 1, 4, 3, 1, 3]]},
                      {"image_id": 1, "category_id": 3, "bbox": [3, 0, 1, 4], "iscrowd": 1,
                       "segmentation": {"counts": [12, 4, 8], "size": [4, 6]}},
                      {"image_id": 1, "category_id": 44, "bbox": [5, 3, 9, 9]},
                      {"image_id": 2, "category_id": 3, "bbox": [0, 0, 2, 4], "segmentation":
                       {"counts": "08`0", "size": [4, 6]}})")));
  EXPECT_EQ(mask_of(*source_, listing.entries[0]), "000100\n022?00\n022?00\n00010?\n");
  EXPECT_EQ(mask_of(*source_, listing.entries[1]), "110000\n110000\n110000\n110000\n");
  EXPECT_NE(warnings_of(listing).find("1 object has a box, but no outline: masks are 255 inside the box"),
            std::string::npos)
      << warnings_of(listing);
  EXPECT_EQ(listing.entries[0].extra.back(), value_or_throw(source_->list()).entries[0].extra.back());
  // A mask is as large as its image, of which a small file may claim much.
  for (const int64_t most : {23, 24}) {
    throw_if_error(open({.path = dir / "annotations/instances_val2017.json", .max_pixels = most}).status());
    EXPECT_EQ(source_->read_referred(listing.entries[1], listing.entries[1].extra.back()).ok(), most == 24);
  }
  // Classes that were numbered anew, as --classes-from and several inputs do, are those of the mask, too.
  SourceEntry renumbered = listing.entries[1];
  renumber_labels(listing.fields, renumbered, [](int64_t label) { return label + 5; });
  EXPECT_EQ(mask_of(*source_, renumbered), "660000\n660000\n660000\n660000\n");
}

// Nothing in an image is known, too: no mask would mean that all of it isn't known.
TEST_F(CocoSource, BesideMasksAnImageWithoutObjectsHasAMaskOfZeros) {
  for (const char* file : {"val2017/1.png", "val2017/2.png"}) write_png(dir / file, 3, 2);
  const std::string images =
      R"({"id": 1, "file_name": "1.png", "width": 3, "height": 2}, {"id": 2, "file_name": "2.png"})";
  const SourceListing listing = value_or_throw(list(json_of(
      images,
      R"({"image_id": 1, "category_id": 18, "bbox": [0, 0, 1, 2], "segmentation": [[0, 0, 1, 0, 1, 2, 0, 2]]})")));
  EXPECT_EQ(mask_of(*source_, listing.entries[0]), "200\n200\n");
  EXPECT_EQ(mask_of(*source_, listing.entries[1]), "000\n000\n");
  // Without any outline in the dataset there are no masks at all.
  const SourceListing boxes =
      value_or_throw(list(json_of(images, R"({"image_id": 1, "category_id": 18, "bbox": [0, 0, 1, 2]})")));
  EXPECT_EQ(field_names(boxes), (std::vector<std::string>{"boxes", "box_labels", "crowd"}));
}

TEST_F(CocoSource, OutlinesThatCantBeReadAreLeftAsideAndCounted) {
  const std::string good =
      R"({"image_id": 10, "category_id": 3, "bbox": [0, 0, 1, 1], "segmentation": [[0, 0, 1, 0, 1, 1]]}, )";
  for (const char* outline :
       {R"([[1, 2, 3, 4]])", R"([1, 2, 3, 4, 5, 6])", R"([["a", 2, 3, 4, 5, 6]])", R"("x")",
        R"({"counts": [1]})", R"({"counts": [-1], "size": [480, 640]})",
        R"({"counts": "o", "size": [480, 640]})", R"({"counts": [], "size": [480, 640]})",
        R"({"counts": [1], "size": [0, 640]})"}) {
    const SourceListing listing = value_or_throw(list(json_of(
        kImages, good + R"({"image_id": 10, "category_id": 3, "bbox": [0, 0, 1, 1], "segmentation": )" +
                     outline + "}")));
    EXPECT_EQ(listing.entries[0].problem, "");
    EXPECT_NE(warnings_of(listing).find(
                  "1 outline that can't be read, the first one in 1.jpg: its 'segmentation' "),
              std::string::npos)
        << outline << warnings_of(listing);
  }
}

TEST_F(CocoSource, KeyPointsAreOfTheirBoxes) {
  const SourceListing listing = value_or_throw(list(json_of(
      kImages, R"({"image_id": 11, "category_id": 1, "bbox": [0, 0, 9, 9], "keypoints": [1, 2, 2, 3, 4, 1]},
                    {"image_id": 11, "category_id": 1, "bbox": [0, 0, 9, 9]})",
      R"("categories": [{"id": 1, "name": "person", "keypoints": ["nose", "tail"], "skeleton": [[1, 2]]}])")));
  ASSERT_EQ(field_names(listing), (std::vector<std::string>{"boxes", "box_labels", "crowd", "points"}));
  EXPECT_EQ(listing.fields[3].shape, (Shape{2, 3}));
  EXPECT_EQ(floats(listing.entries[1].extra[3]), (std::vector<float>{1, 2, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0}));
}

TEST_F(CocoSource, ARootFolderHasSplits) {
  write_text(dir / "train2017/7.jpg", "x");
  write_text(dir / "annotations/instances_train2017.json", json_of(R"({"id": 1, "file_name": "7.jpg"})", ""));
  write_text(dir / "annotations/instances_val2017.json", json_of(kImages, ""));
  write_text(dir / "annotations/captions_val2017.json", "{}");
  SourceListing listing = value_or_throw(open({dir.path(), ""}));
  ASSERT_EQ(listing.entries.size(), 3u);
  EXPECT_EQ(listing.entries[0].path, "train2017/7.jpg");
  EXPECT_EQ(listing.entries[0].name(), "7.jpg");
  EXPECT_EQ(listing.entries[0].split, "train");
  EXPECT_EQ(listing.entries[1].split, "val");
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[0])).size(), 1u);
  listing = value_or_throw(open({.path = dir.path(), .splits = false}));
  EXPECT_EQ(listing.entries[0].split, "");
}

TEST_F(CocoSource, TheJsonMayLieAmongItsImages) {
  TempDir other;
  for (const char* split : {"train", "valid"}) {
    write_text(other / (std::string(split) + "/a.jpg"), "x");
    write_text(other / (std::string(split) + "/_annotations.coco.json"),
               json_of(R"({"id": 0, "file_name": "a.jpg"})",
                       R"({"image_id": 0, "category_id": 1, "bbox": [0, 0, 1, 1]})",
                       R"("categories": [{"id": 0, "name": "pets"}, {"id": 1, "name": "pets"}])"));
  }
  const SourceListing listing = value_or_throw(open({other.path(), ""}));
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[1].path, "valid/a.jpg");
  EXPECT_EQ(listing.entries[1].split, "val");
  EXPECT_EQ(listing.classes, std::vector<std::string>{"pets"}) << "category 0 is the project's";
}

TEST_F(CocoSource, ImagesAreFoundBesideTheJsonOrWhereImagesSays) {
  TempDir elsewhere;
  write_text(elsewhere / "list.json", json_of(kImages, ""));
  EXPECT_EQ(
      value_or_throw(open({.path = elsewhere / "list.json", .images = dir / "val2017"})).entries[0].problem,
      "");
  write_text(elsewhere / "images/images/list/1.jpg", "x");
  EXPECT_EQ(value_or_throw(open({.path = elsewhere / "list.json", .images = elsewhere / "images"}))
                .entries[0]
                .problem,
            "")
      << "below --images as beside the JSON";
  const std::string lost = open({elsewhere / "list.json", ""}).status().message();
  EXPECT_NE(lost.find("lists 1.jpg, but neither it nor"), std::string::npos) << lost;
  EXPECT_NE(lost.find("--images"), std::string::npos);
  EXPECT_NE(open({.path = dir / "val2017", .images = dir / "x"})
                .status()
                .message()
                .find("--images has no effect on"),
            std::string::npos);
  EXPECT_NE(value_or_throw(list(json_of(kImages + R"(, {"id": 9, "file_name": "3.jpg"})", "")))
                .entries[2]
                .problem.find("there is no file"),
            std::string::npos);
  write_text(dir / "val2017/4.jpg", "x");
  const std::string absolute = concat(R"(, {"id": 9, "file_name": ")", dir / "val2017/./4.jpg", "\"}");
  EXPECT_EQ(value_or_throw(list(json_of(kImages + absolute, ""))).entries[2].problem, "");
  EXPECT_NE(value_or_throw(list(json_of(kImages + R"(, {"id": 9, "file_name": "/etc/3.jpg"})", "")))
                .entries[2]
                .problem.find("leads outside of"),
            std::string::npos);
  EXPECT_NE(value_or_throw(list(json_of(kImages + R"(, {"id": 9, "file_name": "../3.jpg"})", "")))
                .entries[2]
                .problem.find("leads outside of"),
            std::string::npos);
}

TEST_F(CocoSource, OtherProgramsFoldersAreKnownByTheirOnlyJson) {
  TempDir label_studio, fifty_one, classes;
  write_text(label_studio / "images/1.jpg", "x");
  write_text(label_studio / "result.json", json_of(R"({"id": 10, "file_name": "images/1.jpg"})", ""));
  EXPECT_EQ(value_or_throw(open({label_studio.path(), ""})).entries.at(0).problem, "");
  EXPECT_EQ(value_or_throw(source_->read(value_or_throw(source_->list()).entries[0])).size(), 1u);
  write_text(fifty_one / "data/1.jpg", "x");
  write_text(fifty_one / "labels.json", json_of(R"({"id": 10, "file_name": "1.jpg"})", ""));
  for (const std::string& path : {fifty_one.path(), fifty_one / "labels.json"}) {
    const SourceListing listing = value_or_throw(open({path, ""}));
    EXPECT_EQ(listing.entries.at(0).problem, "");
    EXPECT_EQ(listing.classes.size(), 3u);
  }
  write_text(classes / "data/1.jpg", "x");
  write_text(classes / "labels.json", R"({"classes": ["a"], "labels": {"1": 0}})");
  const std::string other = open({classes.path(), ""}).status().message();
  EXPECT_NE(other.find("one folder, 'data', whose name is not a class"), std::string::npos) << other;
}

TEST_F(CocoSource, PathsOfOtherMachinesAreFoundByTheirLastNames) {
  const std::string images =
      R"({"id": 10, "file_name": "../../label-studio/data/media/upload/1/1.jpg"}, {"id": 11, "file_name": "images\\2.jpg"})";
  TempDir elsewhere;
  write_text(elsewhere / "result.json", json_of(images, ""));
  const SourceListing listing =
      value_or_throw(open({.path = elsewhere / "result.json", .images = dir / "val2017"}));
  ASSERT_EQ(listing.entries.size(), 2u);
  for (const SourceEntry& entry : listing.entries) EXPECT_EQ(entry.problem, "");
  EXPECT_EQ(listing.entries[1].path, "2.jpg");
  write_text(elsewhere / "result.json",
             json_of(R"({"id": 1, "file_name": "a/1.jpg"}, {"id": 2, "file_name": "b/1.jpg"})", ""));
  const Status both = open({.path = elsewhere / "result.json", .images = dir / "val2017"}).status();
  EXPECT_NE(both.message().find("lists a/1.jpg, but neither"), std::string::npos) << both.message();
}

TEST_F(CocoSource, ABoxOutsideItsImageIsItsImagesProblem) {
  const auto problem = [&](const char* box) {
    const std::string one = concat(R"({"image_id": 10, "category_id": 3, "bbox": [)", box, "]}");
    return value_or_throw(list(json_of(kImages, one))).entries[0].problem;
  };
  EXPECT_EQ(problem("1000, 1000, 5, 5"),
            "the box 1000, 1000, 1005, 1005 is outside the image, which is 640x480");
  EXPECT_NE(problem("-20, 5, 10, 10"), "");
  EXPECT_EQ(problem("-5, 470, 10, 20"), "") << "it continues outside";
  EXPECT_EQ(problem("640, 5, 0, 5"), "") << "a box of no area is another matter";
}

TEST_F(CocoSource, WhatIsWrongIsNamed) {
  const auto annotation = [&](const std::string& text) { return message(json_of(kImages, text)); };
  EXPECT_NE(annotation(R"({"category_id": 3, "bbox": [0, 0, 1, 1]})")
                .find("'annotations' element 0: 'image_id' is missing"),
            std::string::npos);
  EXPECT_NE(annotation(R"({"image_id": 10, "category_id": 5, "bbox": [0, 0, 1, 1]})")
                .find("category 5, which 'categories' doesn't list"),
            std::string::npos);
  EXPECT_NE(
      annotation(R"({"image_id": 10, "category_id": 3, "bbox": [0, 0, 1]})").find("'bbox' has 3 numbers"),
      std::string::npos);
  EXPECT_NE(annotation(R"({"image_id": 10, "category_id": 3, "bbox": [0, 0, "1", 1]})").find("not a number"),
            std::string::npos);
  EXPECT_NE(annotation(R"({"image_id": 10, "caption": "a dog"})").find("it is a caption"), std::string::npos);
  EXPECT_NE(message(json_of(kImages + "," + kImages, "")).find("two images have the id 10"),
            std::string::npos);
  EXPECT_NE(message(json_of("", "")).find("lists no image"), std::string::npos);
  for (const char* what : {"5", "null", "{}", R"({"a": 1})", R"("x.json")"}) {
    const std::string none =
        message(concat(R"({"images": [)", kImages, R"(], "annotations": )", what, ", ", kCategories, "}"));
    EXPECT_NE(none.find("'annotations' is not a list"), std::string::npos) << none;
  }
  for (const char* what : {"5", "null", R"("x")", "[]", "[{}]"})
    EXPECT_NE(annotation(what).find("'annotations' element 0 is not an object"), std::string::npos) << what;
  EXPECT_NE(message(json_of("[1]", "")).find("'images' element 0 is not an object"), std::string::npos);
  EXPECT_NE(annotation(R"({"image_id": 10, "category_id": 9223372036854775808, "bbox": [0, 0, 1, 1]})")
                .find("'category_id'"),
            std::string::npos);
  EXPECT_NE(message("[1, 2]").find("no 'images' in it"), std::string::npos);
  EXPECT_NE(message("").find("not valid JSON"), std::string::npos);
  const std::string whole = json_of(kImages, R"({"image_id": 10, "category_id": 3, "bbox": [0, 0, 1, 1]})");
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(list(whole.substr(0, size)).status().code(), ErrorCode::kCorrupt) << size;
}

TEST_F(CocoSource, ASectionThatIsGivenTwiceIsNamedWithItsPlace) {
  const std::string start =
      R"({"note": "\"images\":", "x": [{"annotations": 1}, "annotations"], "images": [)" + kImages +
      "],\n\"annotations\": [], " + kCategories;
  for (const char* const section : {"images", "annotations", "categories"}) {
    const std::string text = message(concat(start, ",\n\"", section, "\" : []}"));
    EXPECT_NE(text.find(concat("instances_val2017.json: line 3, byte ", start.size() + 3, ": '", section,
                               "' is given a second time")),
              std::string::npos)
        << text;
  }
  const std::string escaped = message(start + R"(, "im\u0061ges": []})");
  EXPECT_NE(escaped.find("instances_val2017.json: 'images' is given a second time"), std::string::npos)
      << escaped;
  EXPECT_TRUE(list(start + R"(, "note": 1, "info": 2, "info": 3})").ok()) << "Python's json uses the last";
}

TEST_F(CocoSource, Utf16IsNamed) {
  std::string wide;
  for (const char c : json_of(kImages, "")) wide += {c, '\0'};
  for (const std::string& text : {wide, "\xff\xfe" + wide})
    EXPECT_NE(message(text).find("instances_val2017.json is UTF-16; save it as UTF-8"), std::string::npos)
        << message(text);
}

TEST_F(CocoSource, WhatIsNoNumberIsNamedWithItsPlace) {
  const std::string good = R"({"image_id": 10, "category_id": 3, "bbox": [0, 0, 1, 1]},)";
  for (const std::string word : {"NaN", "Infinity", "-Infinity"}) {
    const std::string text = message(json_of(
        kImages, good + "\n" + R"({"image_id": 10, "category_id": 3, "bbox": [0, )" + word + ", 1, 1]}"));
    EXPECT_NE(text.find("'annotations' element 1, line 2, byte "), std::string::npos) << text;
    EXPECT_NE(text.find(": " + word + " is not valid JSON, although Python's json writes it"),
              std::string::npos)
        << text;
  }
}

TEST_F(CocoSource, ANumberThatNoDoubleHoldsIsNamedWithItsPlace) {
  const std::string good = R"({"image_id": 10, "category_id": 3, "bbox": [0, 0, 1, 1], "note": "1e400"},)";
  const std::string text = message(
      json_of(kImages, good + "\n" + R"({"image_id": 10, "category_id": 3, "bbox": [0, 1e400, 1, 1]})"));
  EXPECT_NE(text.find("'annotations' element 1, line 2, byte "), std::string::npos) << text;
  EXPECT_NE(text.find(": 1e400 is too large"), std::string::npos) << text;
  EXPECT_EQ(text.find("json.exception"), std::string::npos) << text;
}

TEST_F(CocoSource, WholeNumbersMayBeWrittenAsFloats) {
  const SourceListing listing = value_or_throw(list(json_of(
      R"({"id": 10.0, "file_name": "1.jpg", "width": 640.0, "height": 480}, {"id": 11, "file_name": "2.jpg"})",
      R"({"image_id": 10, "category_id": 3.0, "bbox": [0, 0, 1, 1]},
                      {"image_id": 11.0, "category_id": 18, "bbox": [0, 0, 1, 1]})")));
  EXPECT_EQ(listing.entries[0].annotated.width, 640);
  EXPECT_EQ(decode_labels(listing.entries[0].extra[1]), std::vector<int64_t>{0});
  EXPECT_EQ(decode_labels(listing.entries[1].extra[1]), std::vector<int64_t>{1});
  EXPECT_NE(message(json_of(R"({"id": 10.5, "file_name": "1.jpg"})", "")).find("neither a whole number"),
            std::string::npos);
}

TEST_F(CocoSource, AnObjectThatCannotBeStoredIsItsImagesProblem) {
  const SourceListing listing =
      value_or_throw(list(json_of(kImages, R"({"image_id": 10, "category_id": 3, "bbox": [5, 5, -1, 1]},
                                 {"image_id": 11, "category_id": 3, "segmentation": [[0, 0, 1, 1, 2, 2]]},
                                 {"image_id": 99, "category_id": 3, "bbox": [5, 5, 1, 1]})")));
  EXPECT_EQ(listing.entries[0].problem, "box 1 ends before it begins");
  EXPECT_EQ(listing.entries[1].problem, "an annotation of it has no 'bbox'");
  EXPECT_NE(listing.warnings.back().find("1 annotation of an image that 'images' doesn't list"),
            std::string::npos)
      << listing.warnings.back();
}

}  // namespace
}  // namespace dlpipe::data

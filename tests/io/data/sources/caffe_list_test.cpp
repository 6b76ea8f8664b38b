#include <gtest/gtest.h>

#include <map>

#include "dlpipe/io/data/sources/inputs/inputs.h"
#include "dlpipe/io/data/sources/lists/caffe_list.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/io/data/sources/typed_columns.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

class CaffeListSource : public testing::Test {
 protected:
  CaffeListSource() {
    for (const char* file : {"a/1.JPEG", "a/with blanks 3.jpg", "b/2.png", "top.jpg"})
      write_text(dir / file, "x");
  }
  Result<SourceListing> list(const std::string& text, SourceOptions options = {}) {
    if (options.path.empty()) options.path = dir / "train.txt";
    write_text(dir / "train.txt", text);
    auto source = open_source(options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  std::string message(const std::string& text) { return list(text).status().message(); }
  /// Path -> its class; of what can't be read "!".
  static std::map<std::string, std::string> classes_of(const SourceListing& listing) {
    std::map<std::string, std::string> found;
    for (const SourceEntry& entry : listing.entries)
      found[entry.path] = !entry.problem.empty() ? "!"
                          : entry.label < 0      ? "-"
                                                 : listing.classes.at(static_cast<size_t>(entry.label));
    return found;
  }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

using Found = std::map<std::string, std::string>;

TEST_F(CaffeListSource, EachLineIsAPictureAndItsLabel) {
  const Found expected = {
      {"a/1.JPEG", "2"}, {"a/with blanks 3.jpg", "10"}, {"b/2.png", "0"}, {"top.jpg", "2"}};
  const SourceListing listing =
      value_or_throw(list("a/1.JPEG 2\na/with blanks 3.jpg 10\r\n\nb/2.png  0 \n./top.jpg 2"));
  EXPECT_EQ(classes_of(listing), expected);
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"0", "2", "10"})) << "in the order of the numbers";
  EXPECT_EQ(listing.tokens, 0);
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[0])).size(), 1u);
  EXPECT_NE(
      warnings_of(listing).find("is read as a list of 4 pictures, each with its label, below " + dir.path()),
      std::string::npos)
      << warnings_of(listing);
  for (const char* between : {"\t", ",", ", ", " ,\t"}) {
    std::string text;
    for (const auto& [path, label] : expected) text += path + between + label + "\n";
    EXPECT_EQ(classes_of(value_or_throw(list(text))), expected) << "'" << between << "'";
  }
}

TEST_F(CaffeListSource, PicturesAreFoundBesideOrBelowImagesOrInTheSplitsFolder) {
  write_text(dir / "train/c/5.jpg", "x");
  write_text(dir / "elsewhere/d/6.jpg", "xx");
  EXPECT_EQ(classes_of(value_or_throw(list("c/5.jpg 1\nc/none.jpg 0\n"))),
            (Found{{"c/5.jpg", "1"}, {"c/none.jpg", "!"}}));
  EXPECT_EQ(classes_of(value_or_throw(
                list("/d/6.jpg 1\n", {.path = dir / "train.txt", .images = dir / "elsewhere"}))),
            (Found{{"d/6.jpg", "1"}}))
      << "Caffe puts the root folder before a path as it is";
  write_text(dir / "elsewhere/images/train/e/7.jpg", "x");
  EXPECT_EQ(classes_of(value_or_throw(
                list("e/7.jpg 1\n", {.path = dir / "train.txt", .images = dir / "elsewhere"}))),
            (Found{{"e/7.jpg", "1"}}));
  EXPECT_EQ(classes_of(value_or_throw(list(dir / "b/2.png" + " 4\n"))), (Found{{dir / "b/2.png", "4"}}));
  EXPECT_NE(
      message("d/6.jpg 1\nd/7.jpg 1\n")
          .find("looks like a list of pictures with labels ('d/6.jpg 1'), but neither this picture nor the "
                "next ones are in its folder or those beside it; name the folder of its pictures with "
                "--images"),
      std::string::npos)
      << message("d/6.jpg 1\nd/7.jpg 1\n");
}

TEST_F(CaffeListSource, LabelsMayBeWholeNumbersWrittenAsFractions) {
  EXPECT_EQ(classes_of(value_or_throw(list("a/1.JPEG 2.0\nb/2.png 10\n"))),
            (Found{{"a/1.JPEG", "2"}, {"b/2.png", "10"}}));
}

TEST_F(CaffeListSource, SeveralNumbersAreAFieldInTheLabelsPlace) {
  const SourceListing several = value_or_throw(list("a/1.JPEG 2 10\nb/2.png 2\n"));
  EXPECT_EQ(field_names(several), std::vector<std::string>{"labels"});
  EXPECT_EQ(several.classes, (std::vector<std::string>{"2", "10"}));
  EXPECT_EQ(decode_labels(several.entries[0].extra[0]), (std::vector<int64_t>{0, 1}));
  EXPECT_NE(warnings_of(several).find("several labels each, in the field 'labels'"), std::string::npos);
  const SourceListing as_many = value_or_throw(list("a/1.JPEG -1 1 1\nb/2.png 1 1 -1\n"));
  EXPECT_EQ(field_names(as_many), std::vector<std::string>{"target"});
  EXPECT_EQ(floats(as_many.entries[1].extra[0]), (std::vector<float>{1, 1, -1}));
  EXPECT_NE(warnings_of(as_many).find("3 numbers each, in the field 'target'"), std::string::npos);
}

TEST_F(CaffeListSource, AListOfNamesWithoutEndingsIsNoText) {
  for (const char* text : {"n01440764/n01440764_10026 1\nn01440764/n01440764_10027 2\n",  // ImageNet
                           "apple_pie/1000\nwaffles/9\n",                                 // Food-101
                           "2008_000008 -1\n2008_000015  1\n",                            // VOC
                           "Abyssinian_100 1 1 1\nbeagle_1 2 2 1\n"}) {                   // Oxford-IIIT Pet
    const std::string said = message(text);
    EXPECT_NE(said.find("looks like a list of pictures without their endings ('"), std::string::npos) << said;
    EXPECT_NE(said.find("write a .csv with the first line path,label"), std::string::npos) << said;
    EXPECT_NE(said.find("change its ending to .text"), std::string::npos) << said;
    const Status manifest = list(text, {.path = dir.path(), .manifest = dir / "train.txt"}).status();
    EXPECT_EQ(manifest.message(), said);
  }
  for (const char* text : {"either/or\nboth of them\n", "https://a.b/c\nhttps://a.b/d\n", "12 13\n25 26\n",
                           "chapter 1\nchapter 2\n", "src/a.cpp\nsrc/b.cpp\n", "one/line\n"}) {
    write_text(dir / "train.txt", text);
    EXPECT_EQ(kind_of_picture_list(dir / "train.txt", ""), PictureListKind::kNone) << text;
  }
}

TEST_F(CaffeListSource, AListWithoutLabelsIsNoTextAndSaysWhatToDo) {
  const std::string plain = message("a/1.JPEG\nb/2.png\n");
  EXPECT_NE(plain.find("looks like a list of pictures without labels ('a/1.JPEG')"), std::string::npos)
      << plain;
  EXPECT_NE(plain.find("write each one's class behind it"), std::string::npos) << plain;
  const std::string named = message("a/1.JPEG,cat\nb/2.png,dog\n");
  EXPECT_NE(named.find("looks like a list of pictures ('a/1.JPEG,cat'), but not with a whole number"),
            std::string::npos)
      << named;
  EXPECT_NE(named.find("--manifest " + dir.path() + "/train.txt"), std::string::npos) << named;
  EXPECT_NE(message("a/1.JPEG 1\nb/2.png 2\nb/2.png\n").find("train.txt line 3: no whole number behind"),
            std::string::npos);
}

// As http://mmlab.ie.cuhk.edu.hk/projects/CelebA.html publishes them.
class CelebaLists : public CaffeListSource {
 protected:
  CelebaLists() {
    for (const char* file : {"c/img_align_celeba/000001.jpg", "c/img_align_celeba/000002.jpg"})
      write_text(dir / file, "x");
  }
  SourceListing list_of(const std::string& name, const std::string& text, bool splits = true) {
    write_text(dir / name, text);
    source_ = value_or_throw(open_source({.path = dir / name, .splits = splits}));
    return value_or_throw(source_->list());
  }
  static constexpr const char* kBoxes =
      "2\nimage_id x_1 y_1 width height\n000001.jpg    95  71 226 313\n000002.jpg    72  94 221 306\n";
};

TEST_F(CelebaLists, AttributesAreNumbersByTheirNames) {
  const SourceListing listing = list_of(
      "c/list_attr_celeba.txt",
      "2\n5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald \n000001.jpg -1  1  1 -1 -1\n"
      "000002.jpg -1 -1 -1  1 -1\n");
  EXPECT_EQ(listing.tokens, 0) << "no text";
  EXPECT_EQ(field_names(listing), std::vector<std::string>{"target"});
  ASSERT_EQ(listing.entries.size(), 2u);
  EXPECT_EQ(listing.entries[0].path, "000001.jpg");
  EXPECT_EQ(listing.entries[0].problem, "");
  EXPECT_EQ(listing.entries[0].split, "");
  EXPECT_EQ(floats(listing.entries[0].extra[0]), (std::vector<float>{-1, 1, 1, -1, -1}));
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[1])).size(), 1u);
  const std::string warnings = warnings_of(listing);
  EXPECT_NE(warnings.find("with 5 numbers each ('5_o_Clock_Shadow', 'Arched_Eyebrows', 'Attractive', "
                          "'Bags_Under_Eyes' and 1 more), in the field 'target', below " +
                          (dir / "c/img_align_celeba")),
            std::string::npos)
      << warnings;
  EXPECT_EQ(warnings.find("counts"), std::string::npos) << warnings;
}

TEST_F(CelebaLists, LandmarksArePointsAndBoxesBoxesOfTheirOwnPictures) {
  const SourceListing points = list_of(
      "c/list_landmarks_align_celeba.txt",
      "2\nlefteye_x lefteye_y nose_x nose_y\n000001.jpg 69  109   77  135\n000002.jpg 69 110  81 135\n");
  EXPECT_EQ(points.fields.at(0).kind, FieldKind::kPoints);
  EXPECT_EQ(floats(points.entries[0].extra[0]), (std::vector<float>{69, 109, 1, 77, 135, 1}));
  EXPECT_NE(warnings_of(points).find("with 2 points each ('lefteye', 'nose'), in the field 'points'"),
            std::string::npos);
  const SourceListing cut = list_of("c/list_bbox_celeba.txt", kBoxes);
  EXPECT_EQ(field_names(cut), std::vector<std::string>{"target"})
      << "they are not of the pictures that are there";
  EXPECT_EQ(floats(cut.entries[1].extra[0]), (std::vector<float>{72, 94, 221, 306}));
  EXPECT_NE(warnings_of(cut).find("places in other pictures"), std::string::npos) << warnings_of(cut);
  for (const char* file : {"c/img_celeba/000001.jpg", "c/img_celeba/000002.jpg"})
    write_text(dir / file, "xx");
  const SourceListing boxes = list_of("c/list_bbox_celeba.txt", kBoxes);
  EXPECT_EQ(boxes.fields.at(0).kind, FieldKind::kBoxes);
  EXPECT_EQ(floats(boxes.entries[1].extra[0]), (std::vector<float>{72, 94, 293, 400}));
  EXPECT_EQ(value_or_throw(source_->read(boxes.entries[0])).size(), 2u);
}

TEST_F(CelebaLists, ThePartitionMakesSplitsOfTheOtherLists) {
  const std::string identities = "000001.jpg 2880\n000002.jpg 2937\n";
  EXPECT_EQ(list_of("c/identity_CelebA.txt", identities).entries[0].split, "");
  const SourceListing partition = list_of("c/list_eval_partition.txt", "000001.jpg 0\n000002.jpg 2\n");
  EXPECT_EQ(partition.entries[0].split, "train");
  EXPECT_EQ(partition.entries[1].split, "test");
  EXPECT_EQ(floats(partition.entries[1].extra.at(0)), std::vector<float>{2}) << "no class";
  EXPECT_EQ(partition.entries[1].label, -1);
  const SourceListing people = list_of("c/identity_CelebA.txt", identities);
  EXPECT_EQ(classes_of(people), (Found{{"000001.jpg", "2880"}, {"000002.jpg", "2937"}}));
  EXPECT_EQ(people.entries[1].split, "test");
  EXPECT_NE(warnings_of(people).find("the splits are those of " + (dir / "c/list_eval_partition.txt")),
            std::string::npos)
      << warnings_of(people);
  EXPECT_EQ(list_of("c/identity_CelebA.txt", identities, false).entries[1].split, "");
  write_text(dir / "c/list_eval_partition.txt", "000001.jpg 1\n");
  const SourceListing some = list_of("c/list_bbox_celeba.txt", kBoxes);
  EXPECT_EQ(some.entries[0].split, "");
  EXPECT_NE(warnings_of(some).find("doesn't have all of them, and makes no splits"), std::string::npos);
  write_text(dir / "c/list_eval_partition.txt", "000001.jpg 3\n");
  EXPECT_NE(value_or_throw(open_source({dir / "c/identity_CelebA.txt", ""}))
                ->list()
                .status()
                .message()
                .find("list_eval_partition.txt line 1: no picture with 0, 1 or 2"),
            std::string::npos);
}

TEST_F(CelebaLists, ListsInTheFoldersThatArePublishedFindTheirPictures) {
  for (const char* file :
       {"o/Img/img_align_celeba/000001.jpg", "k/img_align_celeba/img_align_celeba/000001.jpg"})
    write_text(dir / file, "x");
  write_text(dir / "o/Eval/list_eval_partition.txt", "000001.jpg 1\n");
  const std::string text = "1\nBald Young\n000001.jpg -1  1\n";
  EXPECT_EQ(list_of("o/Anno/list_attr_celeba.txt", text).entries.at(0).split, "val");
  EXPECT_EQ(value_or_throw(source_->where(value_or_throw(source_->list()).entries[0])).file,
            dir / "o/Img/img_align_celeba/000001.jpg");
  EXPECT_EQ(list_of("k/list_attr_celeba.txt", text).entries.at(0).problem, "");
}

TEST_F(CelebaLists, LinesThatDifferFromWhatStandsAboveAreNamed) {
  const SourceListing cut = list_of("c/list_attr_celeba.txt", "202599\nBald Young\n000001.jpg -1  1\n");
  EXPECT_NE(warnings_of(cut).find("line 1 counts 202,599 pictures, and it lists 1"), std::string::npos)
      << warnings_of(cut);
  write_text(dir / "c/list_attr_celeba.txt", "2\nBald Young\n000001.jpg -1  1\n000002.jpg -1\n");
  EXPECT_NE(value_or_throw(open_source({dir / "c/list_attr_celeba.txt", ""}))
                ->list()
                .status()
                .message()
                .find("list_attr_celeba.txt line 4: 1 numbers, and line 2 names 2"),
            std::string::npos);
  for (const char* text :
       {"1984\nIt was a bright cold day\nin April\n", "2\n3\n000009.jpg 3 and more\n", "2\n"})
    EXPECT_GT(value_or_throw(value_or_throw([&] {
                               write_text(dir / "c/number.txt", text);
                               return open_source({.path = dir / "c/number.txt", .length = 1});
                             }())
                                 ->list())
                  .tokens,
              0)
        << text;
}

TEST_F(CaffeListSource, ATextStaysAText) {
  for (const char* text :
       {"It was the year 1984\nand the clocks struck 13\n", "see top.jpg 3\nor not, in 1984\n",
        "a.jpg is a picture\nof a cat\n", "not there.jpg 17"}) {
    const SourceListing listing = value_or_throw(list(text, {.path = dir / "train.txt", .length = 5}));
    EXPECT_EQ(listing.tokens, 6) << text;
  }
  write_text(dir / "list.text", "top.jpg 1\nb/2.png 2\n");
  EXPECT_EQ(
      value_or_throw(value_or_throw(open_source({.path = dir / "list.text", .length = 5}))->list()).tokens, 6)
      << "as the message says";
}

TEST_F(CaffeListSource, ListsCalledAsSplitsMakeSplitsOfOneClassTable) {
  write_text(dir / "train.txt", "a/1.JPEG 3\nb/2.png 1\n");
  write_text(dir / "val.txt", "top.jpg 3\n");
  const std::vector<std::string> both = {dir / "train.txt", dir / "val.txt"};
  const SourceListing listing = value_or_throw(value_or_throw(open_sources(both, "", {}))->list());
  Found found;
  for (const SourceEntry& entry : listing.entries)
    found[entry.path] = entry.split + " " + listing.classes.at(static_cast<size_t>(entry.label));
  EXPECT_EQ(found, (Found{{"train.txt/a/1.JPEG", "train 3"},
                          {"train.txt/b/2.png", "train 1"},
                          {"val.txt/top.jpg", "val 3"}}));
}

TEST_F(CaffeListSource, OptionsForOtherListsSayOrReadWhatItIs) {
  write_text(dir / "train.txt", "1.JPEG 3\nwith blanks 3.jpg 1\n");
  const SourceListing beside =
      value_or_throw(value_or_throw(open_source({.path = dir / "a", .manifest = dir / "train.txt"}))->list());
  EXPECT_EQ(classes_of(beside), (Found{{"1.JPEG", "3"}, {"with blanks 3.jpg", "1"}}));
  const std::string given = open_sources({}, dir / "train.txt", {}).status().message();
  EXPECT_NE(given.find("lists pictures; give it as SRC"), std::string::npos) << given;
}

}  // namespace
}  // namespace dlpipe::data

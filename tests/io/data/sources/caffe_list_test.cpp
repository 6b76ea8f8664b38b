#include <gtest/gtest.h>

#include <map>

#include "dlpipe/source.h"
#include "io/data/sources/inputs/inputs.h"
#include "io/data/sources/lists/caffe_list.h"
#include "io/data/sources/typed_columns.h"
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

TEST_F(CaffeListSource, EachLineIsAnImageAndItsLabel) {
  const Found expected = {
      {"a/1.JPEG", "2"}, {"a/with blanks 3.jpg", "10"}, {"b/2.png", "0"}, {"top.jpg", "2"}};
  const SourceListing listing =
      value_or_throw(list("a/1.JPEG 2\na/with blanks 3.jpg 10\r\n\nb/2.png  0 \n./top.jpg 2"));
  EXPECT_EQ(classes_of(listing), expected);
  EXPECT_EQ(listing.classes, (std::vector<std::string>{"0", "2", "10"})) << "in the order of the numbers";
  EXPECT_EQ(listing.tokens, 0);
  EXPECT_EQ(value_or_throw(source_->read(listing.entries[0])).size(), 1u);
  EXPECT_NE(
      warnings_of(listing).find("is read as a list of 4 images, each with its label, below " + dir.path()),
      std::string::npos)
      << warnings_of(listing);
  for (const char* between : {"\t", ",", ", ", " ,\t"}) {
    std::string text;
    for (const auto& [path, label] : expected) text += path + between + label + "\n";
    EXPECT_EQ(classes_of(value_or_throw(list(text))), expected) << "'" << between << "'";
  }
}

TEST_F(CaffeListSource, ImagesAreFoundBesideOrBelowImagesOrInTheSplitsFolder) {
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
          .find("looks like a list of images with labels ('d/6.jpg 1'), but neither this image nor the next "
                "ones are in its folder or those next to it; give the folder of its images with --images"),
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
    EXPECT_NE(said.find("looks like a list of images without their endings ('"), std::string::npos) << said;
    EXPECT_NE(said.find("write a .csv with the first line path,label"), std::string::npos) << said;
    EXPECT_NE(said.find("rename it to .text"), std::string::npos) << said;
    const Status manifest = list(text, {.path = dir.path(), .manifest = dir / "train.txt"}).status();
    EXPECT_EQ(manifest.message(), said);
  }
  for (const char* text : {"either/or\nboth of them\n", "https://a.b/c\nhttps://a.b/d\n", "12 13\n25 26\n",
                           "chapter 1\nchapter 2\n", "src/a.cpp\nsrc/b.cpp\n", "one/line\n"}) {
    write_text(dir / "train.txt", text);
    EXPECT_EQ(kind_of_image_list(dir / "train.txt", ""), ImageListKind::kNone) << text;
  }
}

TEST_F(CaffeListSource, AListWithoutLabelsIsNoTextAndSaysWhatToDo) {
  const std::string plain = message("a/1.JPEG\nb/2.png\n");
  EXPECT_NE(plain.find("looks like a list of images without labels ('a/1.JPEG')"), std::string::npos)
      << plain;
  EXPECT_NE(plain.find("write its class after each path"), std::string::npos) << plain;
  const std::string named = message("a/1.JPEG,cat\nb/2.png,dog\n");
  EXPECT_NE(named.find("looks like a list of images ('a/1.JPEG,cat'), but without a whole number"),
            std::string::npos)
      << named;
  EXPECT_NE(named.find("--manifest " + dir.path() + "/train.txt"), std::string::npos) << named;
  EXPECT_NE(
      message("a/1.JPEG 1\nb/2.png 2\nb/2.png\n").find("train.txt line 3: there is no whole number after"),
      std::string::npos);
}

// As http://mmlab.ie.cuhk.edu.hk/projects/CelebA.html publishes them, and torchvision unpacks them.
TEST_F(CaffeListSource, CelebaListsAreReadByPython) {
  write_text(dir / "c/img_align_celeba/000001.jpg", "x");
  write_text(dir / "c/list_attr_celeba.txt", "1\nBald Young\n000001.jpg -1  1\n");
  write_text(dir / "c/identity_CelebA.txt", "000001.jpg 2880\n");
  write_text(dir / "c/list_eval_partition.txt", "000001.jpg 0\n");
  write_text(dir / "attributes.txt", "1\nBald Young\nc/img_align_celeba/000001.jpg -1  1\n");
  write_text(dir / "count.txt", "1\nc/img_align_celeba/000001.jpg 7\n");
  for (const char* path : {"c", "c/list_attr_celeba.txt", "c/identity_CelebA.txt",
                           "c/list_eval_partition.txt", "attributes.txt", "count.txt"}) {
    auto source = open_source({dir / path, ""});
    const Status status = source.ok() ? (*source)->list().status() : source.status();
    EXPECT_NE(status.message().find("dlpipe.from_dataset(torchvision.datasets.CelebA(...), DST)"),
              std::string::npos)
        << path << ": " << status.message();
  }
  const SourceListing by_manifest =
      value_or_throw(value_or_throw(open_source({.path = dir / "c/img_align_celeba",
                                                 .manifest = dir / "c/identity_CelebA.txt"}))
                         ->list());
  EXPECT_EQ(classes_of(by_manifest), (Found{{"000001.jpg", "2880"}}));
  for (const char* text :
       {"1984\nIt was a bright cold day\nin April\n", "2\n3\n000009.jpg 3 and more\n", "2\n"}) {
    write_text(dir / "number.txt", text);
    EXPECT_GT(
        value_or_throw(value_or_throw(open_source({.path = dir / "number.txt", .length = 1}))->list()).tokens,
        0)
        << text;
  }
}

TEST_F(CaffeListSource, ATextStaysAText) {
  for (const char* text :
       {"It was the year 1984\nand the clocks struck 13\n", "see top.jpg 3\nor not, in 1984\n",
        "a.jpg is an image\nof a cat\n", "not there.jpg 17"}) {
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
  EXPECT_NE(given.find("lists images; give it as SRC"), std::string::npos) << given;
}

}  // namespace
}  // namespace dlpipe::data

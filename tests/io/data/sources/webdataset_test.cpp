#include <gtest/gtest.h>

#include <map>

#include "dlpipe/source.h"
#include "io/data/sources/bytes/scratch_file.h"
#include "io/data/sources/inputs/inputs.h"
#include "tests/io/data/sources/annotated_values.h"
#include "tests/io/data/sources/tar_writing.h"
#include "tests/io/data/temp_dir.h"

namespace dlpipe::data {
namespace {

class WebDataset : public testing::Test {
 protected:
  /// Three samples, each with these files: "image.png" holds "image.png 0".
  std::string write_shard(const std::vector<std::string>& endings, const std::string& folder = "dir0/") {
    std::string tar;
    for (int i = 0; i < 3; ++i) {
      for (const std::string& ending : endings) {
        const std::string text =
            ending.ends_with("cls") ? std::to_string(i) : ending + " " + std::to_string(i);
        tar += tar_file(folder + "00" + std::to_string(i) + "." + ending, text);
      }
    }
    return write(tar);
  }
  std::string write(const std::string& files) {
    write_text(dir / "a.tar", files + tar_end());
    return dir / "a.tar";
  }
  Result<SourceListing> list(const std::string& path, SourceOptions options = {}) {
    options.scratch = std::make_shared<ScratchSpace>(dir.path());
    auto source = open_sources(std::vector<std::string>{path}, "", options);
    if (!source.ok()) return source.status();
    source_ = std::move(*source);
    return source_->list();
  }
  /// The images' bytes with the names of their classes.
  std::vector<std::string> images(const SourceListing& listing) {
    std::vector<std::string> all;
    for (const SourceEntry& entry : listing.entries) {
      EXPECT_EQ(entry.problem, "") << entry.path;
      const std::string name =
          entry.label < 0 ? "none" : listing.classes.at(static_cast<size_t>(entry.label));
      all.push_back(text_of(value_or_throw(source_->read(entry))) + " of " + name);
    }
    return all;
  }
  static std::string text_of(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  static SourceOptions with_fields(std::vector<std::string> fields) {
    SourceOptions options;
    options.fields = std::move(fields);
    return options;
  }
  TempDir dir;
  std::unique_ptr<Source> source_;
};

TEST_F(WebDataset, ClassesMayBeWholeNumbersWrittenAsFractions) {
  const SourceListing texts = value_or_throw(list(write(tar_file("1.jpg", "x") + tar_file("1.cls", "3.0") +
                                                        tar_file("2.jpg", "y") + tar_file("2.cls", "12"))));
  EXPECT_EQ(texts.classes, (std::vector<std::string>{"3", "12"}));
  const SourceListing json =
      value_or_throw(list(write(tar_file("1.jpg", "x") + tar_file("1.json", "{\"label\": 3.0}") +
                                tar_file("2.jpg", "y") + tar_file("2.json", "{\"label\": 12}"))));
  EXPECT_EQ(json.classes, (std::vector<std::string>{"3", "12"}));
}

TEST_F(WebDataset, TheLastPieceOfAnEndingSaysWhatAFileIs) {
  const std::string shard =
      write_shard({"image.png", "target.cls", "mask.png", "caption.txt", "meta.json", "seg.npy"});
  const SourceListing listing = value_or_throw(list(shard));
  EXPECT_EQ(images(listing),
            (std::vector<std::string>{"image.png 0 of 0", "image.png 1 of 1", "image.png 2 of 2"}));
  EXPECT_EQ(field_names(listing), (std::vector<std::string>{"caption.txt", "meta.json"}));
  EXPECT_EQ(listing.entries[1].extra, (std::vector<std::string>{"caption.txt 1", "meta.json 1"}));
  const std::string warnings = warnings_of(listing);
  for (const char* part : {"3 x .mask.png", "3 x .seg.npy",
                           "if .mask.png is a mask of class numbers, add --field mask.png:mask"})
    EXPECT_NE(warnings.find(part), std::string::npos) << part << " in " << warnings;
}

TEST_F(WebDataset, AClassMayBeTheOnlyFileWithANameOfItsOwn) {
  EXPECT_EQ(images(value_or_throw(list(write_shard({"input.jpg", "target.cls"}, "")))),
            (std::vector<std::string>{"input.jpg 0 of 0", "input.jpg 1 of 1", "input.jpg 2 of 2"}));
  const std::string meta = R"({"label": "cat"})";
  const std::string two = write(tar_file("a.input.jpg", "a") + tar_file("a.meta.json", meta) +
                                tar_file("b.input.jpg", "b") + tar_file("b.meta.json", meta));
  EXPECT_EQ(images(value_or_throw(list(two))), (std::vector<std::string>{"a of cat", "b of cat"}));
}

TEST_F(WebDataset, AByteOrderMarkIsNoPartOfTheClass) {
  const std::string two = write(tar_file("a.jpg", "a") +
                                tar_file("a.cls",
                                         "\xef\xbb\xbf"
                                         "7\r\n") +
                                tar_file("b.jpg", "b") + tar_file("b.cls", "7"));
  EXPECT_EQ(images(value_or_throw(list(two))), (std::vector<std::string>{"a of 7", "b of 7"}));
}

TEST_F(WebDataset, MasksAreNoImagesToTrainOn) {
  for (const char* folder : {"train/", ""}) {
    const std::string shard = write_shard({"jpg", "seg.png"}, folder);
    const auto refused = list(shard);
    ASSERT_FALSE(refused.ok()) << "no class, and no mask is asked for";
    for (const char* part : {"no class in the samples", "--field seg.png:mask"})
      EXPECT_NE(refused.status().message().find(part), std::string::npos) << refused.status().message();
    const SourceListing listing = value_or_throw(list(shard, with_fields({"seg.png:mask"})));
    EXPECT_EQ(images(listing), (std::vector<std::string>{"jpg 0 of none", "jpg 1 of none", "jpg 2 of none"}));
    ASSERT_EQ(field_names(listing), std::vector<std::string>{"seg.png"});
    EXPECT_EQ(listing.fields[0].kind, FieldKind::kMask);
    EXPECT_EQ(
        text_of(value_or_throw(source_->read_referred(listing.entries[2], listing.entries[2].extra[0]))),
        "seg.png 2");
  }
}

TEST_F(WebDataset, WhichOfSeveralImagesIsMeantIsAsked) {
  const std::string shard = write_shard({"left.png", "right.png", "cls"});
  const std::string message = list(shard).status().message();
  for (const char* part : {"'.left.png', '.right.png'", "--field ENDING:mask", "dlpipe.from_dataset"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  EXPECT_EQ(list(write_shard({"left.png", "right.png"})).status().message().find("no class"),
            std::string::npos);
  EXPECT_EQ(images(value_or_throw(
                list(write_shard({"left.png", "right.png", "cls"}), with_fields({"right.png:mask"}))))[1],
            "left.png 1 of 1");
  EXPECT_EQ(images(value_or_throw(list(write_shard({"left.png", "image.png", "cls"}))))[1],
            "image.png 1 of 1");
  EXPECT_EQ(images(value_or_throw(list(write_shard({"depth.png", "cls"}))))[1], "depth.png 1 of 1")
      << "there is no other image";
}

TEST_F(WebDataset, WhichOfSeveralClassesIsMeantIsAsked) {
  const std::string shard = write_shard({"jpg", "coarse.cls", "fine.cls"});
  const SourceListing unclear = value_or_throw(list(shard));
  ASSERT_EQ(unclear.entries.size(), 3u);
  for (const SourceEntry& entry : unclear.entries)
    EXPECT_NE(entry.problem.find("several classes, '.coarse.cls', '.fine.cls'; --label coarse.cls"),
              std::string::npos)
        << entry.problem;
  SourceOptions options;
  options.label = "fine.cls";
  EXPECT_EQ(images(value_or_throw(list(shard, options)))[2], "jpg 2 of 2");
}

TEST_F(WebDataset, AFieldOptionThatNoFileFitsIsRefused) {
  const std::string shard = write_shard({"jpg", "cls", "seg.png"});
  EXPECT_NE(
      list(shard, with_fields({"mask.png:mask"})).status().message().find("no image in it has this ending"),
      std::string::npos);
  EXPECT_NE(list(shard, with_fields({"seg.png:text"})).status().message().find("with ENDING:mask"),
            std::string::npos);
  const std::string folders = write(tar_file("cat/1.jpg", "a") + tar_file("dog/1.jpg", "b"));
  EXPECT_NE(list(folders, with_fields({"seg.png:mask"})).status().message().find("--field has no effect on"),
            std::string::npos);
}

// Their names share what stands before the first dot by chance, or with the file that goes with them.
TEST_F(WebDataset, ClassFoldersWithDotsInNamesStayClassFolders) {
  const auto files = [](const std::vector<std::string>& names) {
    std::string tar;
    for (const char* folder : {"cat/", "dog/"}) {
      for (const std::string& name : names) tar += tar_file(folder + name, "x");
    }
    return tar;
  };
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"img.001.jpg", "img.002.jpg"},
        {"1.jpg", "1.png"},
        {"1.jpg", "1.jpg.json"},
        {"a_jpg.rf.f3b1.jpg", "a_jpg.rf.c07d.jpg", "b_jpg.rf.d1.jpg", "b_jpg.rf.e2.jpg"},
        {"1.jpg", "2.jpg", "3.jpg", "3.mask.jpg", "4.jpg", "5.jpg"}}) {
    const SourceListing listing = value_or_throw(list(write(files(names))));
    EXPECT_EQ(listing.classes, (std::vector<std::string>{"cat", "dog"})) << names[1];
  }
}

}  // namespace
}  // namespace dlpipe::data
